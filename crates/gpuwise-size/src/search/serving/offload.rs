//! Host memory that keeps prefixes which the cache of a GPU has no room for.

use super::{Screening, request::Request};
use crate::{
    derive::{Amount, Term, TermLabel},
    memory::MemoryPlan,
};

use gpuwise_domain::{
    derivation::{Derivation, Unit},
    note::ServingNote,
};
use gpuwise_units::Bytes;

/// Tokens that so many bytes of host memory hold of a GPU's part of the cache.
fn tokens(plan: &MemoryPlan, bytes: u64) -> f64 {
    plan.cache_shape.reported_tokens(bytes as f64)
}

/// What the host memory of a GPU holds; `None` without any.
pub(crate) fn derivation(plan: &MemoryPlan, bytes: u64) -> Option<Derivation> {
    (bytes > 0).then(|| {
        let host = Term::input(bytes as f64, || {
            TermLabel::new("host memory of a GPU", Unit::Bytes)
                .from("as asked; kept for reuse, no room for more concurrent requests")
        });
        let tokens = plan.cache_shape.reported(host);
        let name = "prefixes kept in host memory";
        tokens
            .called(|| TermLabel::new(name, Unit::Tokens).digits(6))
            .derivation()
    })
}

/// What the host memory does and does not, for the deployment that is ranked first.
pub(crate) fn note(
    request: &Request<'_>,
    judged: &Screening<'_>,
    ranked: &[usize],
) -> Option<ServingNote> {
    let bytes = request.choices.offload;
    let best = ranked.first().and_then(|at| judged.feasible.get(*at))?;
    (bytes > 0).then(|| ServingNote::HostCache {
        bytes: Bytes::new(bytes),
        tokens: tokens(&best.evaluated.plan, bytes),
    })
}
