//! What a serving engine says of itself at one time.

use alloc::string::String;

/// Counts and gauges of one replica of an engine; what it does not say is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServingSample {
    /// The engine, as flags name it (`vllm`).
    pub engine: String,
    /// The model it serves, where told.
    pub model: Option<String>,
    /// Which of several replicas: the scraped address, the pod, or the engine's number.
    pub replica: String,
    /// Seconds since 1970, where the source says it.
    pub at: Option<f64>,
    pub running: Option<f64>,
    /// Requests in the queue.
    pub waiting: Option<f64>,
    /// Share of the key-value cache in use, from 0 to 1.
    pub cache_use: Option<f64>,
    /// Prompt tokens looked up in the prefix cache, so far.
    pub prefix_queries: Option<f64>,
    /// Prompt tokens found there, so far.
    pub prefix_hits: Option<f64>,
    /// Share of prompt tokens found, where the engine gives only that.
    pub prefix_hit_rate: Option<f64>,
    /// Requests that lost their place, so far.
    pub preempted: Option<f64>,
    /// Cache blocks or tokens that were evicted, so far.
    pub evicted: Option<f64>,
    /// Prompt tokens, so far.
    pub prompt_tokens: Option<f64>,
    /// Generated tokens, so far.
    pub output_tokens: Option<f64>,
    /// Requests that ended, so far.
    pub finished: Option<f64>,
    /// Sum of seconds that requests spent in the queue, and how many they were, so far.
    pub queued: Option<(f64, f64)>,
    /// Batch slots that were computed for nothing, and all that were, at this time or so far.
    pub padding: Option<(f64, f64)>,
}
