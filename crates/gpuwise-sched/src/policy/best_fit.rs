//! Best fit: the node on which least is left.

use super::registry::{Registered, indexed};
use super::scored::{Score, Scored, View};
use gpuwise_domain::placement::WorkerAsk;

pub(super) const POLICY: Registered = Registered {
    name: "bestfit",
    about: "with the least cores and GPU time left",
    make: |context| indexed(BestFit, context),
};

/// What a large node has, by which processor time and GPU time are weighed against each other: 128 cores
/// and 8 GPUs, in thousandths (the values of the published experiment on openb,
/// hkust-adsl/kubernetes-scheduler-simulator@8f3d641, `pkg/type/open-gpu-share/utils/const.go`).
pub(super) const LARGE_CPU: f64 = 128_000.0;
/// See [`LARGE_CPU`].
pub(super) const LARGE_GPU: f64 = 8000.0;

/// 100 × (1 − ½ × processor time left / 128 cores − ½ × GPU time left / 8 GPUs), as if the worker were
/// placed, cut to a whole number. The published policy then stretches scores to 0–100 over the nodes that
/// fit, which changes neither their order nor which are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct BestFit;

impl Score for BestFit {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        let cpu = view.node.cpu_free.saturating_sub(ask.cpu_milli) as f64;
        let gpu = u64::from(view.gpu_free()).saturating_sub(ask.gpu.milli()) as f64;
        let left = cpu / LARGE_CPU * 0.5 + gpu / LARGE_GPU * 0.5;
        (((1.0 - left) * 100.0) as i32).into()
    }
}
