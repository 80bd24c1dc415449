//! Thresholds of an audit: rows of the catalogue, each with its meaning and source.

use alloc::{string::String, vec::Vec};

#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Its name, as [`Rules`] has it.
    pub name: String,
    pub value: f64,
    pub meaning: String,
    pub source: String,
}

/// Thresholds by which workloads are judged. Shares are of 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Hours that a workload must have been seen before it is judged.
    pub least_hours: f64,
    /// An hour whose busiest sample shows less compute than this is idle.
    pub idle_below: f64,
    /// From this share of idle hours on, a workload is idle as a whole.
    pub idle_share: f64,
    /// Idle hours in a row from which on giving the GPU back is worth it.
    pub stretch_hours: f64,
    /// Share of hours in such stretches from which on a workload runs part time.
    pub part_time_share: f64,
    /// Hours that it takes to notice that a stretch has begun, and to come back.
    pub wake_hours: f64,
    /// What peak memory is multiplied by before it must fit.
    pub memory_headroom: f64,
    /// Share of its compute that a smaller device may have to bear at the 95th percentile.
    pub compute_target: f64,
    /// The same of its memory bandwidth.
    pub bandwidth_target: f64,
    /// The same of replicas that are left.
    pub replica_target: f64,
    /// Replicas that are left at least, so that one may fail.
    pub least_replicas: f64,
    /// From this share of the device on, memory is full.
    pub memory_full: f64,
    /// Share of hours in which memory is full that makes a workload too small.
    pub memory_full_share: f64,
    /// Waiting requests, mean over time and replicas, that make a serving engine too small.
    pub waiting: f64,
    /// Share of its CPUs in use from which on a workload may be starved by them.
    pub cpu_full: f64,
    /// Share of periods throttled from which on it is.
    pub throttled: f64,
    /// A workload whose compute is above this is not starved.
    pub starved_below: f64,
    /// Share of cost that a change must save to be proposed.
    pub least_saving: f64,
}

impl Rules {
    /// The rules of these rows, or the name that is missing.
    ///
    /// # Errors
    /// With the name of the first threshold that no row gives.
    pub fn of(rows: &[Threshold]) -> Result<Self, &'static str> {
        let value = |name: &'static str| {
            let row = rows.iter().find(|row| row.name == name);
            row.map(|row| row.value).ok_or(name)
        };
        Ok(Self {
            least_hours: value("least_hours")?,
            idle_below: value("idle_below")?,
            idle_share: value("idle_share")?,
            stretch_hours: value("stretch_hours")?,
            part_time_share: value("part_time_share")?,
            wake_hours: value("wake_hours")?,
            memory_headroom: value("memory_headroom")?,
            compute_target: value("compute_target")?,
            bandwidth_target: value("bandwidth_target")?,
            replica_target: value("replica_target")?,
            least_replicas: value("least_replicas")?,
            memory_full: value("memory_full")?,
            memory_full_share: value("memory_full_share")?,
            waiting: value("waiting")?,
            cpu_full: value("cpu_full")?,
            throttled: value("throttled")?,
            starved_below: value("starved_below")?,
            least_saving: value("least_saving")?,
        })
    }
}

/// What a file of thresholds and names holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AuditCatalogue {
    pub thresholds: Vec<Threshold>,
    pub vocabulary: super::vocabulary::Vocabulary,
}
