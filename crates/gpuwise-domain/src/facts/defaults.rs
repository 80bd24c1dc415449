//! What an engine takes where a launch command says nothing.

use super::{Context, EngineFacts, Value, formula::evaluate};
use crate::{deployment::Settings, engine::Release};

/// A limit that an engine does not have: more than any step holds.
pub const UNLIMITED: u64 = 1_000_000_000;

/// Formulas that name settings whose formulas name settings, at most.
const DEEPEST: u32 = 4;

impl EngineFacts {
    /// The default of a setting as a number, formulas computed from the context and other settings.
    ///
    /// What is known only after memory is planned counts as unbounded: `kv_tokens` in the number of
    /// sequences. A context length that is not known counts as the shortest.
    pub fn number(&self, name: &str, release: Option<Release>, context: &Context) -> Option<f64> {
        self.number_within(name, release, context, DEEPEST)
    }

    fn number_within(
        &self,
        name: &str,
        release: Option<Release>,
        context: &Context,
        depth: u32,
    ) -> Option<f64> {
        let text = match self.setting(name, release, context)? {
            Value::Number(number) => return Some(*number),
            Value::Switch(_) => return None,
            Value::Text(text) => text,
        };
        if depth == 0 {
            return None;
        }
        let ranks = self.completed(self.resolve(release), context).tensor;
        evaluate(text, &|name| match name {
            "M" => context.gpu_gib.map(|gib| gib * 1024.0),
            "tp" => Some(f64::from(ranks)),
            "pp" => Some(f64::from(context.pipeline)),
            "dp" => Some(f64::from(context.data)),
            "max_model_len" | "context_length" => {
                Some(context.max_context.unwrap_or(1).max(1) as f64)
            }
            "kv_tokens" => Some(f64::INFINITY),
            "max_num_batched_tokens" | "chunked_prefill_size"
                if context.batched_tokens.is_some() =>
            {
                context.batched_tokens.map(|tokens| tokens as f64)
            }
            setting => self.number_within(setting, release, context, depth - 1),
        })
    }
}

/// The settings that an engine takes by itself in a release (`None`: the newest), on one attention
/// group. A limit that it has not, or that the facts do not tell, is [`UNLIMITED`]; a share of
/// memory that it has not is 1; a cache without blocks has blocks of 1 token.
pub fn default_settings(
    facts: &EngineFacts,
    release: Option<Release>,
    context: &Context,
) -> Settings {
    let first = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| facts.number(name, release, context))
    };
    let count = |names: &[&str]| first(names).map(|number| number as u64);
    let mut batched = count(&["max_num_batched_tokens", "chunked_prefill_size", "n_ubatch"]);
    if facts.behaves("chunk_divided_by_dp", release) {
        batched = batched.map(|all| all / u64::from(context.data.max(1)));
    }
    Settings {
        batched_tokens: batched.unwrap_or(UNLIMITED),
        sequences: count(&["max_num_seqs", "max_running_requests", "parallel"])
            .unwrap_or(UNLIMITED),
        max_context: context.max_context.or(count(&["ctx_size"])).unwrap_or(0),
        memory_fraction: first(&[
            "gpu_memory_utilization",
            "mem_fraction_static",
            "kv_cache_free_gpu_memory_fraction",
        ])
        .unwrap_or(1.0)
        .clamp(0.0, 1.0),
        block: count(&["block_size", "page_size"]).unwrap_or(1),
        eager: false,
    }
}
