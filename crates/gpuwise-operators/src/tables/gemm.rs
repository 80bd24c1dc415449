//! y = x·Wᵀ, activations in bf16 at both ends.

use super::{Case, Ideal, Operator, Point, Weights, Work};
use crate::{OperatorError, Row, Silicon, grid::Tensors, law::Product};
use alloc::string::ToString as _;
use gpuwise_domain::precision::Compute;

/// Tokens, outputs and inputs, as powers of two.
const GRIDS: &[Tensors] = &[&[&[
    (
        0,
        &[
            0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 13.0, 15.0,
        ],
    ),
    (1, &[4.0, 7.0, 9.0, 11.0, 12.0, 13.0, 14.0, 16.0]),
    (2, &[5.0, 8.0, 10.0, 11.0, 12.0, 13.0, 14.0, 16.0]),
]]];

/// y = x·Wᵀ of m tokens, n outputs and k inputs (table `gemm`).
pub const GEMM: Operator = Operator {
    name: "gemm",
    shape: &["m", "n", "k"],
    grids: GRIDS,
    hosts: 1.0,
    smooth: 0.1,
    read,
    like,
};

gpuwise_units::named! {
    /// Number formats of GEMMs, as engines run them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum GemmFormat: label {
        /// BF16 (or FP16) throughout.
        Bf16 = "bfloat16",
        /// FP8, one scale per tensor, activations quantised on the way.
        Fp8 = "fp8",
        /// FP8 in blocks of 128.
        Fp8Block = "fp8_block",
        /// NVIDIA FP4, activations quantised on the way.
        Nvfp4 = "nvfp4",
        /// INT8 weights alone.
        Int8W8a16 = "int8_wo",
        /// INT4 weights alone.
        Int4Weights = "int4_wo",
        /// INT8 weights and activations.
        Int8 = "sq",
    }
}

impl GemmFormat {
    pub fn of(label: &str) -> Option<Self> {
        match label {
            "float16" => Some(Self::Bf16),
            _ => Self::ALL.into_iter().find(|format| format.label() == label),
        }
    }

    /// Bytes of a weight, with its scales.
    pub const fn weight_bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Fp8Block | Self::Int8W8a16 | Self::Int8 => 1.0,
            Self::Nvfp4 => 9.0 / 16.0,
            Self::Int4Weights => 0.5 + 2.0 / 128.0,
        }
    }

    /// In what it multiplies, where the silicon can.
    pub const fn compute(self) -> Compute {
        match self {
            Self::Bf16 | Self::Int8W8a16 | Self::Int4Weights => Compute::Half,
            Self::Fp8 | Self::Fp8Block => Compute::Fp8,
            Self::Nvfp4 => Compute::Fp4,
            Self::Int8 => Compute::Int8,
        }
    }

    /// Bytes of an activation after its quantisation; `None` where it stays as it comes.
    const fn quantised(self) -> Option<f64> {
        match self {
            Self::Bf16 | Self::Int8W8a16 | Self::Int4Weights => None,
            Self::Fp8 | Self::Fp8Block | Self::Int8 => Some(1.0),
            Self::Nvfp4 => Some(9.0 / 16.0),
        }
    }
}

/// The work of m tokens through n outputs of k inputs.
pub fn work(silicon: &Silicon, format: GemmFormat, weights: Weights, [m, n, k]: [f64; 3]) -> Work {
    let peak = silicon.peak(format.compute());
    let matrix = format.weight_bytes() * n * k;
    let activations = 2.0 * m * (k + n);
    // What is beyond twice the cache must come from memory.
    let memory = match weights {
        Weights::Cold => matrix,
        Weights::Rotated if matrix + activations > 2.0 * silicon.l2 => matrix,
        Weights::Rotated => 0.0,
    };
    let product = Product::new(
        silicon,
        [m, n, k],
        format.weight_bytes(),
        format.quantised(),
        peak,
        weights,
    );
    Work {
        ideal: Ideal::Product(product),
        compute: 2.0 * m * n * k / peak,
        memory: memory / silicon.bandwidth,
        at: Point::new([libm::log2(m), libm::log2(n), libm::log2(k)]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let label = row.text("dtype")?;
    let format = GemmFormat::of(label).ok_or_else(|| OperatorError::Field {
        column: "dtype",
        value: label.to_string(),
        wanted: "a format of GEMMs: bfloat16, fp8, fp8_block, nvfp4, int8_wo, int4_wo, sq",
    })?;
    let size = [row.size("m")?, row.size("n")?, row.size("k")?];
    // b60 was measured in no other way.
    let eager = row.optional("launch") == Some("eager");
    let outside = (eager && silicon.class != crate::Class::Other)
        .then_some("timed without a CUDA graph: the host's time");
    Ok(Case {
        format: format.label().into(),
        model: alloc::string::String::new(),
        work: work(silicon, format, Weights::Rotated, size),
        outside,
    })
}

fn like(format: &str) -> &'static [&'static str] {
    match format {
        "fp8_block" => &["fp8", "bfloat16"],
        "nvfp4" => &["fp8_block", "fp8", "bfloat16"],
        "int8_wo" | "int4_wo" => &["int8_wo", "int4_wo", "bfloat16"],
        "fp8" | "sq" => &["fp8", "sq", "bfloat16"],
        _ => &["bfloat16"],
    }
}
