//! LMDeploy with its TurboMind engine. No measured row of it is fitted: its speed is that of an engine
//! whose version bucket was never seen.

use super::{EngineModel, defaults};
use crate::{
    memory::{GIB, Overhead, Part, part, widest_layer},
    setup::{Settings, Setup},
};
use alloc::{vec, vec::Vec};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
};

pub(super) struct LmDeploy;

impl EngineModel for LmDeploy {
    fn kind(&self) -> EngineKind {
        EngineKind::LmDeploy
    }

    fn settings(
        &self,
        _: &Engine,
        device: &Device<'_>,
        _: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        let sequences = match device.gpu.compute_capability {
            Some((9, 0)) => 1024,
            Some((8, 0)) => 384,
            _ => 128,
        };
        Settings {
            memory_fraction: 0.8,
            block: 64,
            ..defaults(batched_tokens.unwrap_or(8192), sequences)
        }
    }

    fn runs_on(&self, vendor: &str) -> bool {
        vendor == "NVIDIA"
    }

    fn overheads(&self, setup: &Setup<'_>, _: f64, _: f64) -> Vec<Overhead> {
        let step = widest_layer(setup, setup.settings.batched_tokens as f64);
        vec![
            part(
                Part::Activations,
                "workspace",
                step,
                "activations of the widest layer",
            ),
            part(
                Part::NonTorch,
                "context",
                GIB,
                "1 GiB, as assumed: not measured",
            ),
        ]
    }

    /// `cache_max_entry_count` is a share of what is free after loading.
    fn shares_free_memory(&self) -> bool {
        true
    }
}
