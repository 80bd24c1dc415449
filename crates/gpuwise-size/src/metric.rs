//! What is asked of a run, and of which of its requests.

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Mean time to first token in a loop or under load.
    Ttft(Statistic),
    /// Time per output token.
    Tpot(Statistic),
    /// From request to last token.
    EndToEnd(Statistic),
    /// Generated tokens a second of all GPUs.
    OutputThroughput,
    /// The same per GPU.
    OutputThroughputPerGpu,
    /// Prompt and generated tokens a second of all GPUs, under load.
    TotalThroughput,
    /// Requests or samples a second.
    RequestThroughput,
    /// Prompt and generated tokens of a static batch over its latency.
    BatchThroughput,
    BatchLatency,
    /// Time until a static batch has its first tokens.
    BatchFirstToken,
    /// Prompt tokens a second of one stream.
    PromptSpeed,
    /// Generated tokens a second of one stream.
    DecodeSpeed,
}

/// Of a distribution over requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    Mean,
    /// The value below which this fraction lies.
    Quantile(f64),
}
