//! Accelerators, their slices, and the links between them.

use crate::{fabric::FabricLink, precision::Compute};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{Bytes, BytesPerSecond, FlopPerSecond, Watts};

/// An accelerator as the catalogue knows it. Rates are dense peaks, never sparse ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The catalogue's name, such as `H100 SXM5 80GB`.
    pub name: String,
    pub vendor: String,
    /// Architecture generation, such as `Hopper`.
    pub generation: String,
    /// CUDA compute capability as major, minor; unknown for others.
    pub compute_capability: Option<(u8, u8)>,
    /// Names under which drivers and tools report it, and short names people use.
    pub aliases: Vec<String>,
    /// Streaming multiprocessors or compute units.
    pub units: Option<u32>,
    /// Second-level cache of the whole board; `None` where no data sheet states it.
    pub l2: Option<Bytes>,
    /// Memory kind, such as `HBM3`.
    pub memory_kind: String,
    /// Memory as sold, in 10⁹ bytes.
    pub memory_marketing_gb: f64,
    pub memory_reported: Option<Bytes>,
    /// Memory that a CUDA program sees.
    pub memory_visible: Option<Bytes>,
    pub bandwidth: BytesPerSecond,
    pub peak: PeakRates,
    /// The link between GPUs of one host or rack, where there is one.
    pub scale_up: Option<ScaleUp>,
    /// A bridge between boards that hosts may have fitted: nothing counts on it unless a host says so.
    pub bridge: Option<ScaleUp>,
    /// Bandwidth to the host, one direction.
    pub host_link: Option<BytesPerSecond>,
    pub power_limit: Option<Watts>,
    /// Power when idle, as observed.
    pub idle_power: Option<Watts>,
    /// Whether it can be cut into MIG instances.
    pub mig: bool,
    /// Whether it is only announced, so that no plan should offer it unasked.
    pub announced: bool,
    pub form_factor: String,
    /// When it came out, as text.
    pub launch: String,
    pub source: String,
    pub notes: String,
}

/// Dense matmul peaks by precision; `None` where the silicon has no such unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PeakRates {
    /// FP32 outside tensor cores.
    pub fp32: Option<FlopPerSecond>,
    /// TF32 tensor cores.
    pub tf32: Option<FlopPerSecond>,
    /// FP16 with FP32 accumulation.
    pub fp16: Option<FlopPerSecond>,
    /// BF16.
    pub bf16: Option<FlopPerSecond>,
    pub fp8: Option<FlopPerSecond>,
    pub int8: Option<FlopPerSecond>,
    pub fp4: Option<FlopPerSecond>,
    pub int4: Option<FlopPerSecond>,
}

impl PeakRates {
    /// The peak in this precision, where the silicon has it.
    pub fn of(&self, compute: Compute) -> Option<FlopPerSecond> {
        match compute {
            Compute::Full => self.tf32.or(self.fp32),
            Compute::Half => self.bf16.or(self.fp16).or(self.fp32),
            Compute::Fp8 => self.fp8,
            Compute::Int8 => self.int8,
            Compute::Fp4 => self.fp4,
        }
    }
}

/// The link between GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleUp {
    /// Its name and generation, such as `NVLink 4`.
    pub name: String,
    /// Bandwidth of one GPU to its peers, one direction.
    pub bandwidth: BytesPerSecond,
    /// GPUs within one domain.
    pub domain: u32,
    /// How it does, where it is a PCIe fabric between pooled GPUs and no link of their own.
    pub fabric: Option<FabricLink>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MigProfile {
    /// Catalogue names of the GPUs that have it.
    pub gpus: Vec<String>,
    /// Its name, such as `3g.40gb`.
    pub profile: String,
    /// Its memory as a driver printed it.
    pub memory: Bytes,
    pub units: u32,
    pub compute_slices: u32,
    pub memory_slices: u32,
    pub board_compute_slices: u32,
    pub board_memory_slices: u32,
    /// How many fit a board.
    pub max_instances: u32,
    pub source: String,
}

/// A GPU, or a slice of it: what one rank runs on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device<'a> {
    pub gpu: &'a Gpu,
    /// The slice, if it is not the whole board.
    pub slice: Option<&'a MigProfile>,
}

impl<'a> Device<'a> {
    pub fn whole(gpu: &'a Gpu) -> Self {
        Self { gpu, slice: None }
    }

    /// The name, with the slice's profile.
    pub fn name(&self) -> String {
        match self.slice {
            Some(slice) => alloc::format!("{} {}", self.gpu.name, slice.profile),
            None => self.gpu.name.clone(),
        }
    }

    /// The share of the board's memory bandwidth.
    pub fn bandwidth_share(&self) -> f64 {
        self.slice.map_or(1.0, |s| {
            f64::from(s.memory_slices) / f64::from(s.board_memory_slices.max(1))
        })
    }

    /// The share of the board's compute units.
    pub fn compute_share(&self) -> f64 {
        let Some(slice) = self.slice else { return 1.0 };
        match self.gpu.units {
            Some(units) if units > 0 => f64::from(slice.units) / f64::from(units),
            _ => f64::from(slice.compute_slices) / f64::from(slice.board_compute_slices.max(1)),
        }
    }

    /// Peak memory bandwidth of the device.
    pub fn bandwidth(&self) -> BytesPerSecond {
        self.gpu.bandwidth * self.bandwidth_share()
    }

    /// Peak matmul rate of the device in this precision.
    pub fn peak(&self, compute: Compute) -> Option<FlopPerSecond> {
        self.gpu
            .peak
            .of(compute)
            .map(|rate| rate * self.compute_share())
    }

    pub fn units(&self) -> Option<u32> {
        self.slice.map_or(self.gpu.units, |slice| Some(slice.units))
    }
}
