//! Engines that run a model as its library defines it: Transformers, and DeepSpeed-MII on top of it.

use super::{EngineModel, defaults};
use crate::{
    memory::{CacheGroup, GIB, Overhead, Part, part, widest_layer},
    setup::{Settings, Setup},
};
use alloc::{string::String, vec, vec::Vec};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
};

/// No limit on the tokens of a step.
const UNBOUNDED: u64 = 1_000_000_000;
/// Share of memory that PyTorch may take.
const FRACTION: f64 = 0.95;

pub(super) struct Transformers;
pub(super) struct DeepSpeedMii;

impl EngineModel for Transformers {
    fn kind(&self) -> EngineKind {
        EngineKind::Transformers
    }

    fn settings(
        &self,
        _: &Engine,
        _: &Device<'_>,
        _: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        defaults(batched_tokens.unwrap_or(UNBOUNDED), 4096)
    }

    fn runs_on(&self, vendor: &str) -> bool {
        vendor != "Apple"
    }

    fn overheads(&self, setup: &Setup<'_>, _: f64, _: f64) -> Vec<Overhead> {
        let logits =
            setup.architecture.vocabulary as f64 * 4.0 * setup.settings.sequences.min(64) as f64;
        vec![
            part(
                Part::Activations,
                "activations",
                widest_layer(setup, setup.settings.batched_tokens as f64).min(4.0 * GIB) + logits,
                "widest layer and logits",
            ),
            part(Part::NonTorch, "context", 0.5 * GIB, "0.5 GiB"),
        ]
    }

    fn memory_fraction(&self, _: &Setup<'_>) -> f64 {
        FRACTION
    }

    fn ignores_windows(&self, _: &Setup<'_>, _: &[CacheGroup]) -> bool {
        true
    }
}

impl EngineModel for DeepSpeedMii {
    fn kind(&self) -> EngineKind {
        EngineKind::DeepSpeedMii
    }

    fn settings(
        &self,
        engine: &Engine,
        device: &Device<'_>,
        layout: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        Transformers.settings(engine, device, layout, batched_tokens)
    }

    fn runs_on(&self, vendor: &str) -> bool {
        vendor == "NVIDIA"
    }

    fn overheads(&self, setup: &Setup<'_>, visible: f64, weights: f64) -> Vec<Overhead> {
        Transformers.overheads(setup, visible, weights)
    }

    fn memory_fraction(&self, _: &Setup<'_>) -> f64 {
        FRACTION
    }

    fn ignores_windows(&self, _: &Setup<'_>, _: &[CacheGroup]) -> bool {
        true
    }

    fn rules(&self) -> String {
        "recalled".into()
    }
}
