//! What a replay of a cluster's trace came to.

use alloc::{string::String, vec::Vec};

/// One policy at one mark of a trace. What does not apply to a trace is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayRow {
    /// The trace, with its variant: `openb`, `openb:gpuspec25`.
    pub trace: String,
    /// The policy, as users name it.
    pub policy: String,
    /// The seed of the order in which jobs come, where there are several.
    pub seed: Option<u64>,
    /// The mark: GPU time asked for until then in percent of the fleet's GPUs.
    pub arrived_percent: Option<f64>,
    /// GPUs held in percent of all.
    pub gpu_allocated_percent: Option<f64>,
    /// Jobs that got a place until then.
    pub placed: u64,
    /// Jobs without a place.
    pub pending: u64,
    /// Mean time from when a job came until it ended, in seconds.
    pub jct_mean_s: Option<f64>,
    /// From the first job's coming until the last one's end, in seconds.
    pub makespan_s: Option<f64>,
    /// Decisions made in a second of one core's time, where it was measured.
    pub decisions_per_s: Option<f64>,
    /// A hash of every plan, in order: equal plans, equal hashes.
    pub plans_hash: Option<u64>,
    /// Figures of this trace alone, by the name of their column.
    pub more: Vec<(&'static str, Option<f64>)>,
}
