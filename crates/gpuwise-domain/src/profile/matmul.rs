//! Timed matrix products, and the processors they ran on.

use crate::gpu::Gpu;
use alloc::string::String;

gpuwise_units::named! {
    /// In what a product was computed, as timing tables tell them apart.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum MatmulPrecision: name {
        /// BF16, or FP16 on silicon that has both, with FP32 accumulation.
        Bf16 = "bf16",
        /// FP8 with a scale a tensor or a row.
        Fp8 = "fp8",
        /// FP8 with scales of 128 × 128 blocks, which engines of several kinds compute.
        Fp8Block = "fp8_block",
    }
}

impl MatmulPrecision {
    /// The precision of this name, as tables spell it.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "bf16" | "bfloat16" | "fp16" | "float16" | "half" => Self::Bf16,
            "fp8" | "float8" => Self::Fp8,
            "fp8_block" | "fp8-block" => Self::Fp8Block,
            _ => return None,
        })
    }

    /// Bytes of an element of the operands; results are of two bytes.
    pub const fn operand_bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Fp8Block => 1.0,
        }
    }
}

/// The sizes of a product of `m × k` by `k × n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatmulShape {
    /// Rows of the first operand: tokens.
    pub m: u32,
    /// Columns of the second: output features.
    pub n: u32,
    /// What is summed over: input features.
    pub k: u32,
}

impl MatmulShape {
    /// Floating-point operations.
    pub fn operations(self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }

    /// Bytes that are read and written at least, in this precision.
    pub fn bytes(self, precision: MatmulPrecision) -> f64 {
        let (m, n, k) = (f64::from(self.m), f64::from(self.n), f64::from(self.k));
        (m * k + n * k) * precision.operand_bytes() + m * n * 2.0
    }
}

/// One timed product, on a system by the name that the table gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedMatmul {
    pub system: String,
    pub precision: MatmulPrecision,
    pub shape: MatmulShape,
    pub seconds: f64,
}

/// What of a processor decides how fast it multiplies; never its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Processor {
    /// Who makes it: nothing is carried over between vendors.
    pub vendor: String,
    pub generation: String,
    pub capability: Option<(u8, u8)>,
    /// Dense peak in BF16, FLOP/s.
    pub peak_bf16: Option<f64>,
    /// Dense peak in FP8, FLOP/s.
    pub peak_fp8: Option<f64>,
    /// Peak memory bandwidth, bytes/s.
    pub bandwidth: f64,
    pub units: Option<u32>,
    pub power: Option<f64>,
    /// Bandwidth to the host, bytes/s.
    pub host_link: Option<f64>,
}

impl Processor {
    pub fn of(gpu: &Gpu) -> Self {
        Self {
            vendor: gpu.vendor.clone(),
            generation: gpu.generation.clone(),
            capability: gpu.compute_capability,
            peak_bf16: gpu.peak.bf16.map(gpuwise_units::FlopPerSecond::get),
            peak_fp8: gpu.peak.fp8.map(gpuwise_units::FlopPerSecond::get),
            bandwidth: gpu.bandwidth.get(),
            units: gpu.units,
            power: gpu.power_limit.map(gpuwise_units::Watts::get),
            host_link: gpu.host_link.map(gpuwise_units::BytesPerSecond::get),
        }
    }

    /// The dense peak in this precision, FLOP/s, where the silicon has it.
    pub fn peak(&self, precision: MatmulPrecision) -> Option<f64> {
        match precision {
            MatmulPrecision::Bf16 => self.peak_bf16,
            MatmulPrecision::Fp8 | MatmulPrecision::Fp8Block => self.peak_fp8,
        }
    }
}
