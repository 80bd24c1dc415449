//! Memory of one GPU, byte by byte as the engine would report it.

mod activations;
mod budget;
mod cache;
mod explain;
mod pool;
mod range;
mod report;
mod split;
mod weights;

pub(crate) use activations::{rotary, widest_layer};
pub use budget::overheads;
pub(crate) use budget::{GIB, MIB, part};
pub use cache::{CacheGroup, CacheShape, cache_shape, longest_context};
pub use explain::explain;
pub use pool::{Pool, States};
pub use range::{StatedRun, cache_range, profile_shares, weight_factors};
pub use report::report;
pub use split::Split;
pub(crate) use split::windows_apart;
pub use weights::{WeightKind, allocator_slack, published_bytes, weight_kinds, weights_per_rank};

use crate::{derive::Amount, engines, setup::Setup};
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{engine::EngineKind, gpu::Device};

/// What fills the memory of the fullest GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryPlan {
    /// Memory that a program sees.
    pub visible: f64,
    /// Whether that figure is a fact of the catalogue or estimated from the reported one.
    pub visible_known: bool,
    /// What the engine may use of it.
    pub budget: f64,
    pub weights: Vec<WeightKind>,
    /// Everything that is neither weights nor cache.
    pub overheads: Vec<Overhead>,
    /// What remains for the cache; negative where it does not fit.
    pub cache: f64,
    pub cache_shape: CacheShape,
}

/// A part of memory that is neither weights nor cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Overhead {
    /// Under which heading engines log it.
    pub kind: Part,
    pub name: &'static str,
    pub bytes: f64,
    /// Whether it lies outside of the engine's budget.
    pub outside_budget: bool,
    pub formula: String,
}

/// Under which heading an engine logs an overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Kept from loading on, and logged with the weights: tables of positions.
    Rotary,
    /// Logged with the weights: what the allocator gives beyond what is asked for.
    Allocator,
    /// The peak of a step beyond the weights.
    Activations,
    /// What is not PyTorch's: contexts, kernels, collectives.
    NonTorch,
    Graphs,
}

impl MemoryPlan {
    pub fn overhead(&self, kind: Part) -> f64 {
        self.overheads
            .iter()
            .filter(|o| o.kind == kind)
            .map(|o| o.bytes)
            .sum()
    }

    pub fn weight_bytes(&self) -> f64 {
        self.weights.iter().map(|kind| kind.bytes).sum()
    }

    /// Tokens that the cache holds, as the engine reports them.
    pub fn cache_tokens(&self) -> f64 {
        self.cache_shape.reported_tokens(self.cache)
    }

    /// Tokens that the cache holds in requests of this many. Where layers keep different things, it is
    /// not what the engine logs: windows and states take less than a whole context in every layer.
    pub fn held_tokens(&self, tokens: f64) -> f64 {
        self.cache_shape.held_tokens(self.cache, tokens)
    }

    /// Bytes of cache of somebody who serves: where the sum leaves hardly any, the least that serves.
    pub fn served_cache(&self) -> f64 {
        self.cache.max(LEAST_SERVING * self.budget)
    }

    /// Requests of this many tokens that fit at once for somebody who serves. Where all layers have a
    /// window, engines log what they hold as if whole contexts were kept; no more is counted on.
    pub fn served_sequences(&self, tokens: f64) -> f64 {
        let fit = self.cache_shape.sequences(self.served_cache(), tokens);
        if self.cache_shape.windows_everywhere() {
            let whole = CacheShape {
                windows_ignored: true,
                ..self.cache_shape.clone()
            };
            return fit.min(whole.sequences(self.served_cache(), tokens));
        }
        fit
    }

    /// Requests of this many tokens that fit at once.
    pub fn sequences(&self, tokens: f64) -> f64 {
        self.cache_shape.sequences(self.cache, tokens)
    }
}

/// Tokens that the cache holds of a running request on average, under an engine's rule of admission:
/// its prompt, and half of its answer where blocks are taken as it grows. Long answers run for long and
/// are met more often, so that with a squared coefficient of variation c² the mean of what is written
/// is (1 + c²) / 2 of the mean answer. TensorRT-LLM admits only what fits to its end
/// (`GUARANTEED_NO_EVICT`, the default of its server).
pub fn held(engine: EngineKind, input: f64, output: f64, variation: f64) -> f64 {
    let biased = 1.0 + variation;
    let written = if engines::model(engine).reserves_answers() {
        biased
    } else {
        0.5 * biased
    };
    input + written * output
}

/// Seconds to move the cache of so many tokens between hosts, over the link to the host.
pub fn moved(setup: &Setup<'_>, tokens: f64) -> f64 {
    let bytes = cache_shape(setup).sequence_bytes(tokens);
    let link = setup.device.gpu.host_link;
    link.map_or(0.0, |link| bytes / (link.get() * MOVING))
}

/// Share of an engine's memory that the cache of somebody who serves takes at least.
const LEAST_SERVING: f64 = 0.02;

/// Share of a link's bandwidth that moving a cache achieves.
const MOVING: f64 = 0.5;

pub fn plan(setup: &Setup<'_>) -> MemoryPlan {
    plan_of_visible(setup, visible_memory(&setup.device))
}

/// The same where an engine saw so many bytes; beside them whether that is a fact.
pub fn plan_of_visible(setup: &Setup<'_>, (visible, visible_known): (f64, bool)) -> MemoryPlan {
    let weights = weight_kinds(setup);
    let held: f64 = weights.iter().map(|kind| kind.bytes).sum();
    let (budget, overheads) = overheads(setup, visible, held);
    let inside = overheads.iter().filter(|o| !o.outside_budget);
    MemoryPlan {
        visible,
        visible_known,
        budget,
        cache: room(budget, held, inside.map(|overhead| overhead.bytes)),
        cache_shape: cache_shape(setup),
        weights,
        overheads,
    }
}

/// What weights and overheads leave of the budget for the cache.
fn room<A: Amount>(budget: A, weights: A, inside: impl Iterator<Item = A>) -> A {
    budget - weights - inside.sum()
}

/// Memory that a program sees on a device: the catalogue's figure; for a MIG slice what the driver
/// prints for it less what a context hides; else estimated from what the driver reports.
pub fn visible_memory(device: &Device<'_>) -> (f64, bool) {
    let hidden = |reported: f64| 400.0 * 1048576.0 + 0.0017 * reported;
    if let Some(slice) = device.slice {
        return (slice.memory.as_f64() - 64.0 * 1048576.0, true);
    }
    if let Some(visible) = device.gpu.memory_visible {
        return (visible.as_f64(), true);
    }
    if let Some(reported) = device.gpu.memory_reported {
        return (reported.as_f64() - hidden(reported.as_f64()), false);
    }
    // Vendors that sell 2^30 as a GB, and those that do not, are told by the drivers' figures of
    // their other parts: AMD and Intel parts report nearly what they are sold with.
    let binary = matches!(
        device.gpu.vendor.as_str(),
        "AMD" | "Intel" | "Google" | "AWS" | "Apple"
    );
    let scale = if binary { 1073741824.0 } else { 1e9 };
    let reported = device.gpu.memory_marketing_gb * scale;
    (reported - hidden(reported), false)
}
