//! Published measurements, shown beside our figures.

use alloc::string::String;

/// A published measurement; equal runs of one source are one row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvidenceRow {
    /// The model.
    pub model: String,
    /// The GPU, as the catalogue or the source names it.
    pub gpu: String,
    /// GPUs in all.
    pub gpus: Option<u32>,
    /// Tensor-parallel ranks.
    pub tensor: Option<u32>,
    /// Data-parallel ranks.
    pub data: Option<u32>,
    /// Precision as published.
    pub precision: String,
    /// Engine and version as published.
    pub engine: String,
    /// Prompt tokens.
    pub input: Option<f64>,
    /// Output tokens.
    pub output: Option<f64>,
    /// Concurrent requests, or `rate=…/s`; empty: the most that the system can do.
    pub load: String,
    /// What was measured.
    pub metric: String,
    /// In which unit.
    pub unit: String,
    /// The value; of several runs the median.
    pub value: f64,
    /// Runs.
    pub runs: u32,
    /// What else there is to know, such as the benchmark's scenario.
    pub note: String,
    /// Repository, commit and path.
    pub source: String,
}
