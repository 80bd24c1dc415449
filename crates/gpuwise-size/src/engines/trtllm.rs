//! TensorRT-LLM.

use super::{EngineModel, defaults};
use crate::{
    memory::{GIB, Overhead, Part, part, widest_layer},
    setup::{Settings, Setup},
};
use alloc::{vec, vec::Vec};
use gpuwise_domain::{
    engine::{Channel, Engine, EngineKind, Month, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
};

/// Until 0.20 and 2025-03: engines built ahead. Its own harness (`gptSessionBenchmark`) times static
/// batches and nothing else, and its recipe for FP8 checkpoints quantizes the cache too.
pub const STATIC_BATCHES: VersionBucket = VersionBucket {
    static_batches: true,
    quantized_cache: true,
    ..VersionBucket::new("trtllm-2024")
};
/// Images that were built between releases.
const DEVELOPMENT: VersionBucket = VersionBucket::new("trtllm-dev");
/// The month from which the PyTorch backend was the default.
const PYTORCH_BACKEND: Month = Month {
    year: 2025,
    month: 3,
};

pub(super) struct TensorRtLlm;

impl EngineModel for TensorRtLlm {
    fn kind(&self) -> EngineKind {
        EngineKind::TensorRtLlm
    }

    fn bucket(&self, engine: &Engine, _: &Gpu) -> VersionBucket {
        let old = engine.month.is_some_and(|month| month < PYTORCH_BACKEND);
        if !engine.at_least([0, 20, 0]) || old {
            STATIC_BATCHES
        } else if engine.channel == Channel::Development {
            DEVELOPMENT
        } else {
            VersionBucket::new(self.kind().name())
        }
    }

    fn settings(
        &self,
        _: &Engine,
        _: &Device<'_>,
        _: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        defaults(batched_tokens.unwrap_or(8192), 2048)
    }

    fn runs_on(&self, vendor: &str) -> bool {
        vendor == "NVIDIA"
    }

    fn overheads(&self, setup: &Setup<'_>, _: f64, _: f64) -> Vec<Overhead> {
        let several = setup.layout.stage_gpus() > 1;
        let activations = widest_layer(setup, setup.settings.batched_tokens as f64);
        let context = if several { 1.6 } else { 1.0 } * GIB;
        vec![
            part(
                Part::Activations,
                "workspace",
                activations,
                "activations of the widest layer",
            ),
            part(
                Part::NonTorch,
                "context",
                context,
                "1 GiB, 1.6 with several ranks",
            ),
        ]
    }

    fn shares_free_memory(&self) -> bool {
        true
    }

    fn reserves_answers(&self) -> bool {
        true
    }

    fn recipes_draft(&self) -> bool {
        true
    }
}
