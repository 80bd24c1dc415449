//! llama.cpp.

use super::{EngineModel, defaults};
use crate::{
    memory::{GIB, Overhead, Part, part},
    setup::{Settings, Setup},
};
use alloc::{format, vec, vec::Vec};
use gpuwise_domain::{
    engine::{Engine, EngineKind, VersionBucket},
    gpu::{Device, Gpu},
    layout::Layout,
    model::FeedForward,
};

/// Slots of a server that sizing starts: beyond them its batches gain little.
const SLOTS: u64 = 32;

pub(super) struct LlamaCpp;

impl EngineModel for LlamaCpp {
    fn kind(&self) -> EngineKind {
        EngineKind::LlamaCpp
    }

    /// One for each backend, by the maker of the GPU.
    fn bucket(&self, _: &Engine, gpu: &Gpu) -> VersionBucket {
        VersionBucket::new(match gpu.vendor.as_str() {
            "NVIDIA" => "llamacpp-cuda",
            "AMD" => "llamacpp-rocm",
            "Apple" => "llamacpp-metal",
            "Intel" => "llamacpp-sycl",
            _ => self.kind().name(),
        })
    }

    fn settings(
        &self,
        _: &Engine,
        _: &Device<'_>,
        _: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        defaults(batched_tokens.unwrap_or(512), 4096)
    }

    fn runs_on(&self, vendor: &str) -> bool {
        !matches!(vendor, "Google" | "AWS")
    }

    fn overheads(&self, setup: &Setup<'_>, _: f64, _: f64) -> Vec<Overhead> {
        let architecture = setup.architecture;
        let batch = setup.settings.batched_tokens as f64;
        let width = architecture
            .layers
            .iter()
            .map(|run| match run.layer.feed_forward {
                FeedForward::Dense { width, .. } => width as f64,
                FeedForward::Experts { width, chosen, .. } => (width * chosen) as f64,
                FeedForward::None => 0.0,
            })
            .fold(0.0, f64::max);
        let hidden = architecture.hidden as f64;
        let compute =
            (architecture.vocabulary as f64 * 4.0).max(4.0 * width + 8.0 * hidden) * batch;
        let gpus = f64::from(setup.layout.replica_gpus().max(1));
        let context = (0.35 + 0.55 * (gpus - 1.0) / gpus) * GIB;
        vec![
            part(
                Part::Activations,
                "compute buffer",
                compute,
                format!("max(4·V, 4·f + 8·h) × {batch} tokens"),
            ),
            part(
                Part::NonTorch,
                "context",
                context,
                "0.35 GiB and 0.55 GiB for each further GPU",
            ),
        ]
    }

    fn memory_fraction(&self, _: &Setup<'_>) -> f64 {
        1.0
    }

    fn is_local(&self) -> bool {
        true
    }

    fn slots(&self) -> Option<u64> {
        Some(SLOTS)
    }
}
