//! How much what is asked points the way of what is free.

use super::registry::{Registered, indexed};
use super::{
    best_fit::{LARGE_CPU, LARGE_GPU},
    scored::{Score, Scored, View},
};
use gpuwise_domain::placement::WorkerAsk;

pub(super) const POLICY: Registered = Registered {
    name: "dotprod",
    about: "least like what is asked for (dot product)",
    make: |context| indexed(DotProduct, context),
};

/// The published policy DotProd: 100 × (1 − ½ × (free · asked)) with processor and GPU time as shares of
/// a large node, cut to a whole number: it prefers nodes that are full in the dimension that is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct DotProduct;

impl Score for DotProduct {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        ((100.0 * (1.0 - product(view, ask) / 2.0)) as i32).into()
    }
}

pub(super) fn product(view: &View<'_>, ask: &WorkerAsk) -> f64 {
    let cpu = (view.node.cpu_free as f64 / LARGE_CPU) * (ask.cpu_milli as f64 / LARGE_CPU);
    let gpu = (f64::from(view.gpu_free()) / LARGE_GPU) * (ask.gpu.milli() as f64 / LARGE_GPU);
    cpu + gpu
}
