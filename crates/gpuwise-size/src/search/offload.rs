//! Host memory that keeps prefixes which the cache of a GPU has no room for.

use super::{Judged, request::Request};
use crate::memory::MemoryPlan;
use alloc::{
    format,
    string::{String, ToString},
    vec,
};
use gpuwise_domain::estimate::Derivation;
use gpuwise_units::{Bytes, significant};

/// Tokens that so many bytes of host memory hold of a GPU's part of the cache.
fn tokens(plan: &MemoryPlan, bytes: u64) -> f64 {
    plan.cache_shape.reported_tokens(bytes as f64)
}

/// What the host memory of a GPU holds; `None` without any.
pub(crate) fn derivation(plan: &MemoryPlan, bytes: u64) -> Option<Derivation> {
    let per_token = Derivation::fact(
        "bytes per token on a GPU",
        format!("{} B", significant(plan.cache_shape.all_token_bytes(), 9)),
        "as in the cache of the GPU",
    );
    (bytes > 0).then(|| {
        Derivation::computed(
            "prefixes kept in host memory",
            format!("{} tokens", significant(tokens(plan, bytes), 6)),
            "host memory of a GPU ÷ bytes per token, in whole blocks; kept for reuse, no room for more requests at once",
            vec![
                Derivation::fact("host memory of a GPU", Bytes::new(bytes).to_string(), "as asked"),
                per_token,
            ],
        )
    })
}

/// What the host memory does and does not, for the deployment that is ranked first.
pub(crate) fn note(request: &Request<'_>, judged: &Judged<'_>, ranked: &[usize]) -> Option<String> {
    let bytes = request.choices.offload;
    let best = ranked.first().and_then(|at| judged.feasible.get(*at))?;
    (bytes > 0).then(|| {
        format!(
            "{} of host memory a GPU keeps prefixes of {} tokens for reuse; it lets no more requests run at once, \
             and prompts gain from it what --prefix-hit says",
            Bytes::new(bytes),
            significant(tokens(&best.evaluated.plan, bytes), 6)
        )
    })
}
