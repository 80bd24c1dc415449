//! Figures of kernels and copies.

use crate::profile::timeline::{Direction, MemoryKind};
use alloc::string::String;

#[derive(Debug, Clone, PartialEq)]
pub struct KernelFigures {
    /// The name, as the file has it.
    pub name: String,
    /// Its kind, by the rules for names (`gemm`, `copy`, `other`).
    pub kind: String,
    pub tensor_cores: TensorCores,
    pub count: u64,
    pub sum_ns: i64,
    pub min_ns: i64,
    pub max_ns: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KernelGroup {
    /// The kind (`gemm`, `attention`, `copy`, `other`).
    pub kind: String,
    pub count: u64,
    pub sum_ns: i64,
}

/// Whether a kernel uses tensor cores (matrix cores), as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TensorCores {
    Used,
    /// It could, and does not: a matrix product, convolution or attention on other units.
    Unused,
    /// It computes nothing that they could: element-wise, reductions, copies, communication.
    Ineligible,
    /// The name does not say.
    #[default]
    Unknown,
}

/// Sum of the durations of kernels by their use of tensor cores; the parts sum to the time of
/// kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TensorCoreTime {
    /// Of kernels that use them.
    pub used_ns: i64,
    /// Of kernels that could, and do not.
    pub unused_ns: i64,
    /// Of kernels that they could do nothing for.
    pub ineligible_ns: i64,
    /// Of kernels whose name does not say.
    pub unknown_ns: i64,
}

/// Copies of one direction between the same kinds of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyFigures {
    /// From where to where; unknown when absent.
    pub direction: Option<Direction>,
    /// The memory they were read from.
    pub source: MemoryKind,
    /// The memory they were written to.
    pub target: MemoryKind,
    pub count: u64,
    pub sum_ns: i64,
    /// How many of them state their bytes.
    pub sized_count: u64,
    pub bytes: u64,
    /// Sum of durations of those.
    pub sized_ns: i64,
    pub largest_bytes: u64,
}

impl CopyFigures {
    /// Bytes a second while copying, where bytes are stated.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.sized_ns > 0).then(|| self.bytes as f64 / (self.sized_ns as f64 * 1e-9))
    }
}

/// A mean weighted by time, and how much of the time it is known for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weighted {
    pub mean: f64,
    /// Kernel time for which the file states the value.
    pub known_ns: i64,
    /// Kernel time in all.
    pub of_ns: i64,
}
