//! How much what is asked points the way of what is free.

use super::{
    best_fit::{LARGE_CPU, LARGE_GPU},
    scored::{Score, Scored, View},
};
use gpuwise_domain::placement::WorkerAsk;

/// The published policy DotProd: 100 × (1 − ½ × (free · asked)) with processor and GPU time as shares of
/// a large node, cut to a whole number: it prefers nodes that are full in the dimension that is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct DotProduct;

impl Score for DotProduct {
    fn name(&self) -> &'static str {
        "dotprod"
    }

    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        ((100.0 * (1.0 - product(view, ask) / 2.0)) as i32).into()
    }
}

/// Like Tetris (Grandl et al., SIGCOMM 2014): the largest product of what is free and what is asked, so
/// that a worker goes where its mixture is free.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alignment;

impl Score for Alignment {
    fn name(&self) -> &'static str {
        "tetris"
    }

    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        ((1e6 * product(view, ask)).min(1e9) as i32).into()
    }
}

fn product(view: &View<'_>, ask: &WorkerAsk) -> f64 {
    let cpu = (view.node.cpu_free as f64 / LARGE_CPU) * (ask.cpu_milli as f64 / LARGE_CPU);
    let gpu = (f64::from(view.gpu_free()) / LARGE_GPU) * (ask.gpu.milli() as f64 / LARGE_GPU);
    cpu + gpu
}
