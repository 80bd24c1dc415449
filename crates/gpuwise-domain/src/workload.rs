//! What is asked of a deployment: traffic, SLOs and limits.

use alloc::{string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, PerSecond, Percentile, Seconds, Tokens, Watts};

/// The traffic, the SLO and the limits of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub traffic: Traffic,
    pub lengths: Lengths,
    /// Share of prompt tokens that the prefix cache holds (0 to 1).
    pub prefix_hit: f64,
    pub slo: Slo,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traffic {
    /// Poisson arrivals at a mean rate; `burstiness` is the squared coefficient of variation of the gaps
    /// (1 for Poisson).
    Open {
        /// Requests a second.
        rate: PerSecond,
        /// Squared coefficient of variation of the gaps between requests.
        burstiness: f64,
    },
    /// A fixed number in flight: a new one starts when one ends.
    Closed { concurrency: u64 },
}

/// Lengths of requests in tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Lengths {
    pub input: LengthDistribution,
    pub output: LengthDistribution,
}

/// A distribution of lengths by its mean and some quantiles.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthDistribution {
    pub mean: f64,
    /// Squared coefficient of variation (0: all equal).
    pub variation: f64,
    pub longest: Tokens,
}

impl LengthDistribution {
    pub fn fixed(tokens: Tokens) -> Self {
        Self {
            mean: tokens.0 as f64,
            variation: 0.0,
            longest: tokens,
        }
    }
}

/// What is known of traffic beyond its means, where it was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficDetail {
    /// Mean requests a second of consecutive hours; empty: unknown.
    pub hourly: Vec<PerSecond>,
    /// When the first of these hours begins, as it was written.
    pub hourly_from: Option<String>,
    /// Requests a second in the busiest hour, or in as much as was seen.
    pub peak: Option<PerSecond>,
    /// Quantiles of prompts, rising; empty: unknown.
    pub input: Vec<LengthQuantile>,
    /// Quantiles of outputs, rising; empty: unknown.
    pub output: Vec<LengthQuantile>,
}

/// A length that so many requests do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthQuantile {
    /// The share of requests.
    pub percentile: Percentile,
    /// At most this long.
    pub tokens: Tokens,
}

/// A service-level objective: every target must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Slo {
    /// Time to first token.
    pub ttft: Option<Target>,
    /// Time per output token after the first.
    pub tpot: Option<Target>,
    /// From request to last token.
    pub end_to_end: Option<Target>,
    /// Output tokens a second in all, at least.
    pub throughput: Option<PerSecond>,
}

impl Slo {
    /// Whether there is no SLO.
    pub fn is_empty(&self) -> bool {
        self.ttft.is_none()
            && self.tpot.is_none()
            && self.end_to_end.is_none()
            && self.throughput.is_none()
    }
}

/// A bound on a latency at a percentile of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// At which percentile; `None` is the mean.
    pub percentile: Option<Percentile>,
    pub at_most: Seconds,
}

/// What a plan may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Only these GPUs (catalogue names); empty: any.
    pub gpus: Vec<String>,
    /// Only these providers; empty: any.
    pub providers: Vec<String>,
    /// Only regions that begin with one of these; empty: any.
    pub regions: Vec<String>,
    /// At most this much an hour.
    pub budget: Option<HourlyPrice>,
    /// At most this power for all GPUs.
    pub power: Option<Watts>,
    /// Replicas beyond what the load needs.
    pub spare_replicas: u32,
    /// Quality that may be lost, in percent; `None`: any that is shown.
    pub quality_loss: Option<f64>,
    /// Hosts already owned, as GPU name and GPUs of each.
    pub owned: Vec<(String, u32)>,
}
