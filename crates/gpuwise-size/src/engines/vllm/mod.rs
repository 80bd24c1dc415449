//! vLLM.

mod memory;

use super::{EngineModel, defaults, reported_gib};
use crate::{
    memory::{CacheGroup, Overhead, Pool},
    setup::{Settings, Setup},
};
use alloc::vec::Vec;
use gpuwise_domain::{
    engine::{Channel, Engine, EngineKind, Month, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
    model::Window,
};

/// The first engine (until 0.8), and what was run before 2025-03.
pub const FIRST_ENGINE: VersionBucket = VersionBucket::new("vllm-2024");
/// Each step is planned once the one before it is done (until 0.14).
const SYNCHRONOUS: VersionBucket = VersionBucket::new("vllm-sync");
/// Builds between releases, run for models that no release had tuned yet.
const NIGHTLY: VersionBucket = VersionBucket::new("vllm-nightly");
const SECOND_ENGINE: Month = Month {
    year: 2025,
    month: 3,
};

pub(super) struct Vllm;

impl EngineModel for Vllm {
    fn kind(&self) -> EngineKind {
        EngineKind::Vllm
    }

    fn bucket(&self, engine: &Engine, _: &Gpu) -> VersionBucket {
        let old = engine.month.is_some_and(|month| month < SECOND_ENGINE);
        if engine.channel == Channel::Nightly {
            NIGHTLY
        } else if !engine.at_least([0, 8, 0]) || old {
            FIRST_ENGINE
        } else if !engine.at_least([0, 14, 0]) {
            SYNCHRONOUS
        } else {
            VersionBucket::new(self.kind().name())
        }
    }

    fn settings(
        &self,
        engine: &Engine,
        device: &Device<'_>,
        _: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        let gib = reported_gib(device.gpu);
        let large = gib >= 70.0 && device.gpu.compute_capability != Some((8, 0));
        let second = engine.at_least([0, 8, 0]);
        let usual = match (second && large, gib >= 160.0 && engine.at_least([0, 28, 0])) {
            (true, true) => 16384,
            (true, false) => 8192,
            (false, _) => 2048,
        };
        let sequences = if second && large { 1024 } else { 256 };
        defaults(batched_tokens.unwrap_or(usual), sequences)
    }

    fn runs_on(&self, vendor: &str) -> bool {
        vendor != "Apple"
    }

    fn overheads(&self, setup: &Setup<'_>, _: f64, weights: f64) -> Vec<Overhead> {
        memory::overheads(setup, weights)
    }

    /// Before 0.9.1 where layers with and without a window mix, and from 0.10.1 to 0.14 where windows
    /// are chunks (its manager of several kinds was off by default for them).
    fn ignores_windows(&self, setup: &Setup<'_>, groups: &[CacheGroup]) -> bool {
        let since = |numbers| setup.engine.at_least(numbers);
        let chunked = groups
            .iter()
            .any(|group| matches!(group.window, Window::Chunked(_)));
        groups.len() > 1
            && (!since([0, 9, 1]) || chunked && since([0, 10, 1]) && !since([0, 14, 0]))
    }

    /// The first engine keeps states beside the cache; the second took such models over with 0.10.2.
    fn pool(&self, setup: &Setup<'_>, states: bool, block: f64) -> Option<Pool> {
        let since = if states { [0, 10, 2] } else { [0, 8, 0] };
        setup.engine.at_least(since).then(|| Pool::of(setup, block))
    }

    fn pages_states(&self) -> bool {
        true
    }

    fn one_kind_of_blocks(&self, setup: &Setup<'_>) -> bool {
        !setup.engine.at_least([0, 8, 0])
    }

    fn peak_without_sampling(&self, setup: &Setup<'_>) -> Option<f64> {
        memory::peak_without_sampling(setup)
    }

    fn loads_by_torch(&self) -> bool {
        true
    }

    /// By kernel: TRT-LLM's on compute capability 10.x and AMD's both widths by 256; Triton's, which is bundled since
    /// 0.11.1, on 9.0 the inner width by 64; Marlin elsewhere by 256 and 128
    /// (`vllm/model_executor/layers/quantization/mxfp4.py` of 0.11.0, `fused_moe/oracle/mxfp4.py` later).
    fn expert_multiples(&self, setup: &Setup<'_>) -> (f64, f64) {
        let gpu = setup.device.gpu;
        match gpu.compute_capability {
            _ if gpu.vendor == "AMD" => (256.0, 256.0),
            Some((10, _)) => (256.0, 256.0),
            Some((9, 0)) if setup.engine.at_least([0, 11, 1]) => (1.0, 64.0),
            _ => (256.0, 128.0),
        }
    }
}
