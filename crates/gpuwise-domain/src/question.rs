//! A measured or wished-for figure as a question: one row of a table.

use alloc::{string::String, vec::Vec};

/// One row of the question form: a configuration and the metric asked for.
///
/// Cells are kept as written where their reading depends on others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    pub id: String,
    /// The model as written: a name, an alias or a path.
    pub model: String,
    pub gpu: String,
    /// GPUs in all, if stated.
    pub gpus: Option<u32>,
    /// Tensor-parallel ranks, if stated.
    pub tensor: Option<u32>,
    /// Pipeline stages, if stated.
    pub pipeline: Option<u32>,
    /// Data-parallel ranks, if stated.
    pub data: Option<u32>,
    pub precision: String,
    /// Engine and version as written.
    pub engine: String,
    /// Input tokens of a request.
    pub input: Option<f64>,
    /// Output tokens of a request.
    pub output: Option<f64>,
    pub load: Load,
    pub metric: String,
    pub unit: String,
    /// Further inputs, in order.
    pub extra: Vec<(String, String)>,
    /// The measured value, where the row has one.
    pub value: Option<f64>,
}

impl Question {
    /// The first value of a further input.
    pub fn extra(&self, key: &str) -> Option<&str> {
        self.extra
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub enum Load {
    /// Nothing stated: the most that the system can do.
    #[default]
    Unstated,
    /// So many concurrent requests, or in the batch.
    InFlight(f64),
    /// Poisson arrivals at this rate a second; stages follow each other.
    Rate(Vec<f64>),
}

/// What a published benchmark sends, for rows that name it and not its lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    /// How the names of its variants begin.
    pub prefix: String,
    pub input: f64,
    pub output: f64,
    /// Beams that are decoded for each request.
    pub beams: f64,
    /// Its bound on end-to-end latency in seconds, where it has one.
    pub latency_slo: Option<f64>,
    pub source: String,
}
