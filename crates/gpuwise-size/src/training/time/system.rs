//! What a training run runs on: the GPU, what its kernels reach, and its links.

use super::Assumed;
use crate::composed;
use alloc::vec::Vec;
use gpuwise_domain::{
    gpu::Gpu,
    precision::Compute,
    training::{Framework, Recipe, TrainingSetup},
    training_facts::TrainingFacts,
};
use gpuwise_units::{BytesPerSecond, FlopPerSecond};

/// Share of the BF16 peak that large matmuls reach where nothing was timed: the median of timed GPUs.
const UNTIMED_HALF: f64 = 0.75;
/// The same in FP8.
const UNTIMED_FP8: f64 = 0.65;
/// Share of the BF16 peak in attention where nothing is known of the generation.
const UNTIMED_ATTENTION: f64 = 0.40;
/// Bytes a second of one GPU's network where none is known: 200 Gbit/s.
const UNKNOWN_NETWORK: f64 = 25e9;

/// A GPU with its links, and what its kernels reach.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSystem {
    /// Matmul operations a second that were timed, in BF16.
    pub half: f64,
    /// The same in FP8, where the silicon has it.
    pub fp8: Option<f64>,
    /// Dense FP4 peak, where the silicon has it.
    pub fp4_peak: Option<f64>,
    /// Matmul operations a second in FP32 or TF32.
    pub full: f64,
    /// Operations a second in attention: FlashAttention-2, the vendor's kernels.
    pub attention: (f64, f64),
    /// Bytes a second of memory.
    pub memory: f64,
    /// Bytes a second between GPUs of one domain, one direction.
    pub scale_up: f64,
    /// GPUs of one domain.
    pub domain: f64,
    /// Bytes a second of one GPU to others beyond its domain.
    pub network: f64,
    /// Bytes a second to the host.
    pub host: f64,
    /// Whether layers of experts replay captured graphs: recipes of racks do, and runs whose experts
    /// take a fixed number of tokens.
    pub captured: bool,
    /// Whether matmuls were timed on this very GPU.
    pub timed: bool,
    /// What had to be assumed.
    pub assumptions: Vec<Assumed>,
}

impl TrainingSystem {
    /// A GPU in the servers that it usually comes in.
    pub fn usual(gpu: &Gpu, facts: &TrainingFacts) -> Self {
        let mut assumptions = Vec::new();
        let share = facts.matmul_share(&gpu.name, &gpu.generation);
        if share.is_none() {
            assumptions.push(Assumed::UntimedMatmuls {
                generation: gpu.generation.clone(),
            });
        }
        let attention = facts.attention_share(&gpu.generation);
        let peak = |compute| gpu.peak.of(compute).map(FlopPerSecond::get);
        let half_peak = peak(Compute::Half).or(peak(Compute::Full)).unwrap_or(0.0);
        let network = facts.network(&gpu.name, &gpu.generation).map_or_else(
            || {
                assumptions.push(Assumed::Network {
                    bytes_per_second: UNKNOWN_NETWORK,
                });
                UNKNOWN_NETWORK
            },
            |row| row.bytes_per_second,
        );
        let host = gpu.host_link.map_or(16e9, BytesPerSecond::get);
        Self {
            half: half_peak * share.map_or(UNTIMED_HALF, |row| row.half),
            fp8: peak(Compute::Fp8)
                .map(|rate| rate * share.and_then(|row| row.fp8).unwrap_or(UNTIMED_FP8)),
            fp4_peak: peak(Compute::Fp4),
            full: peak(Compute::Full).unwrap_or(half_peak / 8.0) * UNTIMED_HALF,
            attention: attention.map_or(
                (half_peak * UNTIMED_ATTENTION, half_peak * UNTIMED_ATTENTION),
                |row| (half_peak * row.flash2, half_peak * row.vendor),
            ),
            memory: gpu.bandwidth.get(),
            // Without a link of their own, GPUs of a host meet over the host link.
            scale_up: gpu
                .scale_up
                .as_ref()
                .map_or(host * 0.5, |link| match &link.fabric {
                    Some(fabric) => {
                        let share = composed::share(fabric, f64::from(link.domain.max(2)));
                        fabric.bandwidth.get() * share
                    }
                    None => link.bandwidth.get(),
                }),
            domain: gpu
                .scale_up
                .as_ref()
                .map_or(8.0, |link| f64::from(link.domain.max(1))),
            network,
            host,
            captured: gpu.scale_up.as_ref().is_some_and(|link| link.domain > 8),
            timed: share.is_some_and(|row| row.gpu == gpu.name),
            assumptions,
        }
    }

    /// The same with another network of one GPU, in bytes a second.
    #[must_use]
    pub fn with_network(mut self, bytes_per_second: f64) -> Self {
        self.network = bytes_per_second.max(1.0);
        self.assumptions
            .retain(|assumed| !matches!(assumed, Assumed::Network { .. }));
        self
    }

    /// The same with another link between GPUs: bytes a second in one direction, GPUs that it joins.
    #[must_use]
    pub fn with_scale_up(mut self, bytes_per_second: f64, domain: u32) -> Self {
        self.scale_up = bytes_per_second.max(1.0);
        self.domain = f64::from(domain.max(1));
        self.captured = domain > 8;
        self
    }

    /// Operations a second in attention as a framework calls it.
    pub(super) fn attention_rate(&self, framework: Framework) -> f64 {
        match framework {
            // torchtitan asks for cuDNN's kernels first.
            Framework::Megatron | Framework::Torchtitan => self.attention.1,
            Framework::HuggingFace | Framework::PyTorch | Framework::Torchtune => self.attention.0,
        }
    }

    /// The link over which a group of GPUs that lie side by side meets, in bytes a second of one.
    pub(super) fn link(&self, span: f64) -> f64 {
        if span <= self.domain {
            self.scale_up
        } else {
            self.network
        }
    }

    /// The same where members that share a domain share their networks too: each byte enters a
    /// domain once, over the networks of all `inner`-th GPUs in it.
    pub(super) fn shared_link(&self, span: f64, inner: f64) -> f64 {
        if span <= self.domain {
            return self.scale_up;
        }
        let sharing = (self.domain / inner.max(1.0)).max(1.0);
        self.scale_up.min(self.network * sharing)
    }
}

/// The dense peak that a recipe's matmuls run against, for MFU; `None` where the silicon lacks it.
pub fn recipe_peak(gpu: &Gpu, setup: &TrainingSetup) -> Option<f64> {
    let compute = match setup.recipe {
        Recipe::Fp32 | Recipe::Tf32 => Compute::Full,
        Recipe::PureBf16 | Recipe::MixedBf16 | Recipe::Fp16 => Compute::Half,
        Recipe::Fp8 | Recipe::Fp8Block => Compute::Fp8,
        Recipe::Nvfp4 => Compute::Fp4,
    };
    gpu.peak.of(compute).map(FlopPerSecond::get)
}
