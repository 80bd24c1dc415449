//! What tells inference engines apart: one module each, behind [`EngineModel`].
//!
//! Defaults and support by release are rows of `catalogue/engines`; a module holds what a row cannot:
//! how the engine divides memory, and which of the speed model's forms describe it. Nothing else in
//! this crate asks which engine it is.

mod llamacpp;
mod lmdeploy;
mod sglang;
mod transformers;
pub mod trtllm;
pub mod vllm;

use crate::{
    memory::{CacheGroup, CacheShape, Overhead, Pool, Split},
    setup::{Settings, Setup},
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    engine::{Engine, EngineKind, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
};

/// How an engine behaves: memory, defaults, what it runs on, and how it forms steps.
///
/// What a method says by default holds for an engine on PyTorch that pages its cache.
pub trait EngineModel: Sync {
    fn kind(&self) -> EngineKind;

    /// The bucket of releases whose constants describe it, as people run it.
    fn bucket(&self, _engine: &Engine, _gpu: &Gpu) -> VersionBucket {
        VersionBucket::new(self.kind().name())
    }

    /// What it does by itself on a device, with so many tokens of a step where they are stated.
    fn settings(
        &self,
        engine: &Engine,
        device: &Device<'_>,
        layout: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings;

    fn runs_on(&self, vendor: &str) -> bool;

    /// What lies in its memory beside weights and cache.
    fn overheads(&self, setup: &Setup<'_>, visible: f64, weights: f64) -> Vec<Overhead>;

    /// Share of memory that it may use.
    fn memory_fraction(&self, setup: &Setup<'_>) -> f64 {
        setup.settings.memory_fraction
    }

    /// Whether that share is of what weights and workspace leave, not of all that it sees.
    fn shares_free_memory(&self) -> bool {
        false
    }

    /// Whether layers with a window keep the whole context.
    fn ignores_windows(&self, _setup: &Setup<'_>, _groups: &[CacheGroup]) -> bool {
        false
    }

    /// How layers of several kinds share blocks of one size; `states`: whether some keep a state.
    fn pool(&self, _setup: &Setup<'_>, _states: bool, _block: f64) -> Option<Pool> {
        None
    }

    /// How memory is shared out over pools of different kinds.
    fn split(&self, _setup: &Setup<'_>, _shape: &CacheShape) -> Option<Split> {
        None
    }

    /// Whether states lie in pages that drafted tokens share.
    fn pages_states(&self) -> bool {
        false
    }

    /// Whether its blocks hold keys and values of every layer, whatever the layer keeps.
    fn one_kind_of_blocks(&self, _setup: &Setup<'_>) -> bool {
        false
    }

    /// The peak on ranks that do not sample; `None` where every rank does.
    fn peak_without_sampling(&self, _setup: &Setup<'_>) -> Option<f64> {
        None
    }

    /// Whether PyTorch's allocator holds the weights, tensor by tensor.
    fn loads_by_torch(&self) -> bool {
        false
    }

    /// Multiples that the widths of MXFP4 experts are padded to on a rank: of the hidden width, and of the
    /// experts' inner one.
    fn expert_multiples(&self, _setup: &Setup<'_>) -> (f64, f64) {
        (1.0, 1.0)
    }

    /// Whether a request is admitted only where its whole answer has room.
    fn reserves_answers(&self) -> bool {
        false
    }

    /// Whether prompts run in steps of their own while decoding waits.
    fn prefills_first(&self) -> bool {
        false
    }

    /// Whether its published recipes draft with a model's prediction layers, and do not say so.
    fn recipes_draft(&self) -> bool {
        false
    }

    /// Whether it is ggml's: kernels and constants of its own, layers dealt out over GPUs, tokens
    /// looked up on the host.
    fn is_local(&self) -> bool {
        false
    }

    /// Sequences that it is started with, where that is a setting which everybody sets.
    fn slots(&self) -> Option<u64> {
        None
    }

    /// Where its rules are written down.
    fn rules(&self) -> String {
        format!("catalogue/engines/{}.toml", self.kind().name())
    }
}

/// Every engine's model: the one place that lists them.
pub const fn model(kind: EngineKind) -> &'static dyn EngineModel {
    match kind {
        EngineKind::Vllm => &vllm::Vllm,
        EngineKind::Sglang => &sglang::Sglang,
        EngineKind::TensorRtLlm => &trtllm::TensorRtLlm,
        EngineKind::LlamaCpp => &llamacpp::LlamaCpp,
        EngineKind::LmDeploy => &lmdeploy::LmDeploy,
        EngineKind::Transformers => &transformers::Transformers,
        EngineKind::DeepSpeedMii => &transformers::DeepSpeedMii,
    }
}

/// Memory of a GPU as the driver reports it, in GiB.
fn reported_gib(gpu: &Gpu) -> f64 {
    gpu.memory_reported
        .map_or(gpu.memory_marketing_gb, gpuwise_units::Bytes::gib)
}

/// What servers do without being told, beside tokens and sequences of a step.
fn defaults(batched_tokens: u64, sequences: u64) -> Settings {
    Settings {
        batched_tokens,
        sequences,
        max_context: 0,
        memory_fraction: 0.9,
        block: 16,
        eager: false,
    }
}
