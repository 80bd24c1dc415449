//! Failures and checkpoints: how often a job stops, when to save, what is lost.
//!
//! Stops come at random (exponential gaps), each throws the job back to its last checkpoint. The
//! interval that loses least is Daly's higher-order estimate (J. T. Daly, A higher order estimate of
//! the optimum checkpoint interval for restart dumps, Future Generation Computer Systems 22, 2006,
//! equation 37), which for rare stops is Young's √(2·δ·M); the time a run takes is his complete
//! model (equation 20).

use gpuwise_domain::{
    estimate::Estimate,
    training_plan::{CheckpointPlan, Reliability},
};
use gpuwise_units::Bytes;

/// Mean seconds between two stops of a job on so many GPUs.
pub fn mean_time_between_stops(gpu_hours_per_stop: f64, gpus: u64) -> f64 {
    gpu_hours_per_stop * 3600.0 / gpus.max(1) as f64
}

/// Young's interval: seconds of work between checkpoints, `√(2·δ·M)`.
pub fn young_interval(write_seconds: f64, mtbf_seconds: f64) -> f64 {
    libm::sqrt(2.0 * write_seconds * mtbf_seconds)
}

/// Daly's interval: seconds of work between checkpoints that lose least, given that writing one
/// holds work up for `write_seconds`.
///
/// Where writing takes more than twice the time between stops, no interval helps, and it is that
/// time.
pub fn daly_interval(write_seconds: f64, mtbf_seconds: f64) -> f64 {
    if write_seconds >= 2.0 * mtbf_seconds {
        return mtbf_seconds;
    }
    let ratio = libm::sqrt(write_seconds / (2.0 * mtbf_seconds));
    young_interval(write_seconds, mtbf_seconds) * (1.0 + ratio / 3.0 + ratio * ratio / 9.0)
        - write_seconds
}

/// Expected seconds of a run over the seconds of its work alone, at least 1: with checkpoints every
/// `interval` seconds of work and `restart_seconds` from each stop until work goes on.
///
/// `M·e^(R/M)·(e^((τ+δ)/M) − 1) / τ`.
pub fn slowdown(interval: f64, write_seconds: f64, restart_seconds: f64, mtbf_seconds: f64) -> f64 {
    if interval <= 0.0 || mtbf_seconds <= 0.0 {
        return f64::INFINITY;
    }
    let grown = libm::expm1((interval + write_seconds) / mtbf_seconds);
    mtbf_seconds * libm::exp(restart_seconds / mtbf_seconds) * grown / interval
}

/// Checkpoints of a job: when to write them, and what they and failures cost.
///
/// Every GPU writes its share at once; steps stand still meanwhile. Reading it back after a stop
/// takes as long as writing it.
pub fn checkpoints(
    bytes: Bytes,
    gpus: u64,
    step_seconds: f64,
    reliability: &Reliability,
) -> CheckpointPlan {
    let storage = reliability.storage_per_gpu.scaled(gpus as f64);
    let write = storage.inverse(bytes.count() as f64);
    let per_stop = reliability.gpu_hours_per_stop;
    let mtbf = per_stop.scaled(3600.0 / gpus.max(1) as f64);
    let at = |write: f64, mtbf: f64| daly_interval(write, mtbf).max(step_seconds);
    let interval = Estimate {
        value: at(write.value, mtbf.value),
        low: at(write.low, mtbf.low),
        high: at(write.high, mtbf.high),
    };
    let lost = |write: f64, restart: f64, mtbf: f64| {
        let slow = slowdown(interval.value, write, restart + write, mtbf);
        1.0 - 1.0 / slow
    };
    let restart = reliability.restart_seconds;
    CheckpointPlan {
        bytes,
        write,
        interval,
        steps: libm::round(interval.value / step_seconds.max(1e-9)).max(1.0) as u64,
        mtbf,
        lost_share: Estimate {
            value: lost(write.value, restart.value, mtbf.value),
            low: lost(write.low, restart.low, mtbf.high),
            high: lost(write.high, restart.high, mtbf.low),
        },
    }
}
