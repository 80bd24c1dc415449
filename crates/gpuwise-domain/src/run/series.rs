//! What happened over time, to a run and to one request.

use alloc::vec::Vec;
use gpuwise_units::Nanoseconds;

/// A run over time, in stretches of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Where the first stretch begins.
    pub start: Nanoseconds,
    pub width: Nanoseconds,
    /// The stretches; 200 at most.
    pub buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bucket {
    /// Requests that were due in it.
    pub offered: u64,
    /// Requests that were served whole in it.
    pub completed: u64,
    /// Requests that ended in it unserved.
    pub unserved: u64,
    /// Output tokens in it; `None` where nobody knows how many were generated.
    pub output_tokens: Option<f64>,
    /// Requests that were due and had not ended, on average.
    pub concurrent: f64,
    /// Sequences that engines had in their batches, on average.
    pub running: Option<f64>,
    /// Requests that waited for a place, on average.
    pub waiting: Option<f64>,
    /// Share of key-value cache blocks in use (0 to 1), on average.
    pub cache_use: Option<f64>,
    /// Median time to first token, in seconds, of requests due in it.
    pub ttft_p50: Option<f64>,
    /// 95th percentile of the same.
    pub ttft_p95: Option<f64>,
}

gpuwise_units::named! {
    /// What happens to a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Moment:
        name
    {
        /// The client means to send it.
        Due = "due",
        /// The client sends it.
        Sent = "sent",
        /// It is in the queue of an engine.
        Queued = "queued",
        /// It is in a batch for the first time.
        Scheduled = "in a batch",
        /// Its first token is at the client.
        FirstToken = "first token",
        /// It loses its place.
        Preempted = "preempted",
        Resumed = "in a batch again",
        Retried = "sent again",
        End = "end",
    }
}

/// A moment in the life of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineEvent {
    /// When, by the clock of the run.
    pub at: Nanoseconds,
    pub moment: Moment,
}
