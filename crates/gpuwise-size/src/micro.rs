//! Predictions of microbenchmarks: single matmuls, from which the achieved rates of a generation
//! are anchored before any engine is looked at.

use crate::{
    constants::{Constants, Parameter as P},
    speed::matmul_seconds,
};
use gpuwise_domain::{gpu::Device, precision::Compute};

/// One timed matmul of `tokens × columns` by `columns × rows`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Matmul<'a> {
    pub device: Device<'a>,
    pub compute: Compute,
    /// Rows of activations (m).
    pub tokens: f64,
    /// Output features (n).
    pub rows: f64,
    /// Input features (k).
    pub columns: f64,
}

/// The bucket under which a microbenchmark's launch is kept.
pub const BUCKET: &str = "microbenchmark";

/// Seconds of a matmul under these constants.
pub fn matmul(matmul: &Matmul<'_>, constants: &Constants) -> f64 {
    let place = constants.place(&matmul.device.gpu.generation, BUCKET);
    let launch = constants.get(P::Kernel, place) * 1e-6;
    launch + matmul_seconds(matmul, constants, place)
}
