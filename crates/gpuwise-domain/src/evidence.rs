//! Published measurements, shown beside our figures.

use alloc::string::String;

/// A published measurement; equal runs of one source are one row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvidenceRow {
    pub model: String,
    /// The GPU, as the catalogue or the source names it.
    pub gpu: String,
    pub gpus: Option<u32>,
    pub tensor: Option<u32>,
    pub data: Option<u32>,
    pub precision: String,
    /// Engine and version as published.
    pub engine: String,
    pub input: Option<f64>,
    pub output: Option<f64>,
    /// Concurrent requests, or `rate=…/s`; empty: the most that the system can do.
    pub load: String,
    pub metric: String,
    pub unit: String,
    /// The value; of several runs the median.
    pub value: f64,
    pub runs: u32,
    /// What else there is to know, such as the benchmark's scenario.
    pub note: String,
    /// Repository, commit and path.
    pub source: String,
}
