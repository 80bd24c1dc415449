//! What is timed: which sizes, and what a time of it says.

use gpuwise_domain::profile::matmul::MatmulShape;
use std::fmt;

/// Kinds of work, as one asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Copies and fills within the memory of the GPU.
    Memory,
    /// Copies between host and GPU.
    Copy,
    /// Launches of an empty kernel.
    Launch,
    Matmul,
}

gpuwise_units::named! {
    /// What a matrix product is computed in; sums are in FP32.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Precision: name {
        /// BF16 operands and results.
        Bf16 = "bf16",
        /// FP16 operands and results.
        Fp16 = "fp16",
        /// FP32 operands, rounded to TF32 by the tensor cores.
        Tf32 = "tf32",
        /// FP32 throughout.
        Fp32 = "fp32",
    }
}

impl Precision {
    /// Bytes of an element of operands and results.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2,
            Self::Tf32 | Self::Fp32 => 4,
        }
    }
}

/// The weights of a product: `n × k`, outputs by inputs, as a linear layer keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub n: u32,
    pub k: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.n, self.k)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The GPU's number, as CUDA counts them.
    pub gpu: u32,
    /// How often each piece of work is timed.
    pub repeats: u32,
    pub groups: Vec<Group>,
    /// Rows of the first operand: tokens.
    pub tokens: Vec<u32>,
    pub weights: Vec<Shape>,
    /// In what products are computed.
    pub precisions: Vec<Precision>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// So many bytes are copied within the memory of the GPU: read and written.
    CopyWithin(u64),
    /// So many bytes are set to 0.
    Fill(u64),
    /// So many bytes are copied to the GPU.
    ToGpu {
        bytes: u64,
        /// Whether the host's memory is pinned.
        pinned: bool,
    },
    /// So many bytes are copied from the GPU.
    FromGpu {
        bytes: u64,
        /// Whether the host's memory is pinned.
        pinned: bool,
    },
    /// An empty kernel, one behind the other.
    Launch,
    /// An empty kernel, and the host waits for it.
    LaunchAndWait,
    /// A product of `m × k` by the transpose of `n × k`.
    Matmul(Precision, MatmulShape),
}

impl Work {
    /// Its name, for tables and as the part of a figure.
    pub fn name(self) -> String {
        let memory = |pinned| if pinned { "pinned" } else { "pageable" };
        match self {
            Self::CopyWithin(_) => "copy within".into(),
            Self::Fill(_) => "fill".into(),
            Self::ToGpu { pinned, .. } => format!("to GPU, {}", memory(pinned)),
            Self::FromGpu { pinned, .. } => format!("from GPU, {}", memory(pinned)),
            Self::Launch => "launch".into(),
            Self::LaunchAndWait => "launch and wait".into(),
            Self::Matmul(precision, MatmulShape { m, n, k }) => {
                format!("{} {m}x{n}x{k}", precision.name())
            }
        }
    }

    /// Bytes that are read or written in device memory or over the link; of products at least.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::CopyWithin(bytes) => Some(2 * bytes),
            Self::Fill(bytes) | Self::ToGpu { bytes, .. } | Self::FromGpu { bytes, .. } => {
                Some(bytes)
            }
            Self::Launch | Self::LaunchAndWait => None,
            Self::Matmul(precision, shape) => {
                let [m, n, k] = [shape.m, shape.n, shape.k].map(u64::from);
                Some((m * k + n * k + m * n) * precision.bytes())
            }
        }
    }

    /// Floating-point operations; a multiplication and an addition are two.
    pub fn operations(self) -> Option<f64> {
        match self {
            Self::Matmul(_, shape) => Some(shape.operations()),
            _ => None,
        }
    }
}

/// Bytes of a copy or a fill where memory allows it: long against a launch on every link.
const COPY: u64 = 256 << 20;

/// Bytes of the buffers of copies: four times the last cache at least, so that memory is reached; an
/// eighth of what is free at most. Multiples of 4 KiB.
pub(crate) fn copy_bytes(cache: u64, free: u64) -> u64 {
    (COPY.max(4 * cache).min(free / 8) >> 12) << 12
}

/// Where the weights of consecutive products lie, so that none finds its own in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// Bytes from one copy of the weights to the next: a multiple of 256, as cuBLAS likes it.
    pub(crate) stride: u64,
    pub(crate) copies: u64,
}

/// Copies of weights of so many bytes that together exceed the cache twice, 64 at most.
pub(crate) fn rotation(weights: u64, cache: u64) -> Rotation {
    let stride = weights.max(1).next_multiple_of(256);
    Rotation {
        stride,
        copies: (2 * cache).div_ceil(stride).clamp(1, 64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_leaves_the_cache() {
        let check = |cache_mib: u64, free_mib: u64, expect_mib: u64| {
            let bytes = copy_bytes(cache_mib << 20, free_mib << 20);
            assert_eq!(bytes, expect_mib << 20, "{cache_mib} {free_mib}");
        };
        check(50, 80_000, 256);
        check(126, 180_000, 504);
        // Little is free: less is copied rather than nothing.
        check(50, 800, 100);
        assert_eq!(copy_bytes(50 << 20, 0), 0);
    }

    #[test]
    fn weights_rotate_past_the_cache() {
        let check = |weights: u64, cache: u64, expect: (u64, u64)| {
            let found = rotation(weights, cache);
            assert_eq!((found.stride, found.copies), expect, "{weights} {cache}");
        };
        check(32 << 20, 50 << 20, (32 << 20, 4));
        check(256 << 20, 50 << 20, (256 << 20, 1));
        check(2, 50 << 20, (256, 64));
        check(257, 0, (512, 1));
    }

    #[test]
    fn bytes_and_operations() {
        let check = |work: Work, bytes: Option<u64>, operations: Option<f64>| {
            assert_eq!((work.bytes(), work.operations()), (bytes, operations));
        };
        check(Work::CopyWithin(100), Some(200), None);
        check(Work::Fill(100), Some(100), None);
        check(Work::Launch, None, None);
        let shape = MatmulShape { m: 2, n: 3, k: 5 };
        // 10 + 15 read and 6 written, two bytes each; 30 multiplications and as many additions.
        check(Work::Matmul(Precision::Bf16, shape), Some(62), Some(60.0));
        check(Work::Matmul(Precision::Fp32, shape), Some(124), Some(60.0));
    }
}
