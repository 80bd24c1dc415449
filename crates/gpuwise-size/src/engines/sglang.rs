//! SGLang.

use super::{EngineModel, defaults, reported_gib};
use crate::{
    memory::{
        CacheGroup, CacheShape, GIB, MIB, Overhead, Part, Split, allocator_slack, part, rotary,
        visible_memory, windows_apart,
    },
    setup::{Settings, Setup},
};
use alloc::{vec, vec::Vec};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
    model::Window,
};

pub(super) struct Sglang;

impl EngineModel for Sglang {
    fn kind(&self) -> EngineKind {
        EngineKind::Sglang
    }

    fn settings(
        &self,
        _: &Engine,
        device: &Device<'_>,
        layout: Layout,
        batched_tokens: Option<u64>,
    ) -> Settings {
        let usual = match reported_gib(device.gpu) {
            gib if gib < 20.0 => 2048,
            gib if gib < 60.0 => 4096,
            gib if gib < 160.0 => 8192,
            _ => 16384,
        };
        let tokens = batched_tokens.unwrap_or(usual);
        Settings {
            memory_fraction: static_fraction(visible_memory(device).0, layout, tokens),
            ..defaults(tokens, 4096)
        }
    }

    fn runs_on(&self, vendor: &str) -> bool {
        matches!(vendor, "NVIDIA" | "AMD" | "Intel")
    }

    /// The static fraction is what holds weights and cache.
    fn overheads(&self, setup: &Setup<'_>, visible: f64, _: f64) -> Vec<Overhead> {
        let fraction = setup.settings.memory_fraction;
        // The fraction is of what is free once the process and its collectives have started.
        let several = setup.layout.stage_gpus() * setup.layout.pipeline > 1;
        let taken = if several { 1.6 } else { 0.5 } * GIB;
        vec![
            rotary(setup),
            part(
                Part::Allocator,
                "allocator blocks",
                allocator_slack(setup),
                "weights of 10 MiB and more in blocks of 2 MiB",
            ),
            part(
                Part::NonTorch,
                "context and collectives",
                taken * fraction,
                "what is taken before weights load, by the static fraction",
            ),
            Overhead {
                outside_budget: true,
                ..part(
                    Part::Activations,
                    "activations and graphs",
                    visible * (1.0 - fraction),
                    "what the static fraction leaves",
                )
            },
        ]
    }

    /// A pool for windows is one beside that of other layers: without those all tokens are kept.
    fn ignores_windows(&self, setup: &Setup<'_>, groups: &[CacheGroup]) -> bool {
        let full = |group: &CacheGroup| group.window == Window::Full;
        !groups.iter().any(full) || groups.len() > 1 && !windows_apart(setup)
    }

    fn split(&self, setup: &Setup<'_>, shape: &CacheShape) -> Option<Split> {
        Split::of(setup, shape)
    }

    fn loads_by_torch(&self) -> bool {
        true
    }

    fn prefills_first(&self) -> bool {
        true
    }

    /// FlashInfer's kernels on Blackwell both widths by 256; Triton's elsewhere the inner width by 64, on AMD by 128
    /// (`python/sglang/srt/layers/quantization/mxfp4.py`).
    fn expert_multiples(&self, setup: &Setup<'_>) -> (f64, f64) {
        let gpu = setup.device.gpu;
        match gpu.compute_capability {
            _ if gpu.vendor == "AMD" => (1.0, 128.0),
            Some((10.., _)) => (256.0, 256.0),
            _ => (1.0, 64.0),
        }
    }
}

/// Share of memory that is taken by itself: activations, graphs and collectives are reserved up
/// front, for so many tokens of a step, and the static fraction is what that leaves.
fn static_fraction(visible: f64, layout: Layout, batched_tokens: u64) -> f64 {
    let gib = visible / GIB;
    let tensor = f64::from(layout.tensor);
    let graphs = if gib < 20.0 {
        8.0
    } else if gib < 35.0 {
        48.0
    } else if gib < 60.0 {
        32.0
    } else if gib < 90.0 {
        256.0
    } else {
        512.0
    };
    let chunk = (batched_tokens as f64).max(2048.0);
    let stages = f64::from(layout.pipeline);
    let data = f64::from(layout.attention_data);
    let mut reserved = 512.0 + 1.5 * chunk + 2.0 * graphs + 128.0 * tensor * stages;
    if data > 1.0 {
        reserved += 3.0 * graphs * data;
    }
    if gib > 60.0 {
        reserved = reserved.max(10_240.0);
    }
    (1.0 - reserved * MIB / visible).max(0.0)
}
