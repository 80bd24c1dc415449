//! Values of many requests in a few numbers.

use alloc::vec::Vec;
use gpuwise_units::Percentile;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Metric:
        name,
        /// As files name it.
        key
    {
        /// Time to first token, from when the request was due.
        Ttft = "TTFT", "ttft",
        /// Time per output token after the first, for each request of at least two.
        Tpot = "TPOT", "tpot",
        /// Gaps between tokens (or chunks) that follow one another, of all requests pooled.
        InterToken = "inter-token", "inter_token",
        /// From when the request was due to its last token.
        EndToEnd = "end to end", "end_to_end",
        /// End to end divided by the output tokens.
        Normalised = "end to end / token", "normalised",
        /// From when the request was sent until it was first in a batch.
        Queueing = "queueing", "queueing",
        /// Tokens of the prompt (ISL).
        Input = "ISL", "input",
        /// Tokens generated (OSL).
        Output = "OSL", "output",
        /// From when the request was due until the client sent it.
        ClientDelay = "client delay", "client_delay",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    Seconds,
    Tokens,
}

impl Metric {
    pub const fn unit(self) -> MetricUnit {
        match self {
            Self::Input | Self::Output => MetricUnit::Tokens,
            _ => MetricUnit::Seconds,
        }
    }
}

/// How percentiles were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// From every value, by linear interpolation between neighbours.
    Exact,
    /// From a histogram whose values keep so many significant digits.
    Histogram { digits: u32 },
}

/// A value that a share of all does not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    pub at: Percentile,
    pub value: f64,
}

/// Many values in a few numbers; there is at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    pub count: u64,
    pub mean: f64,
    pub minimum: f64,
    pub maximum: f64,
    /// Standard deviation of these values (divided by their count).
    pub deviation: f64,
    /// At rising percentiles, whether or not there are enough values to rely on them.
    pub quantiles: Vec<Quantile>,
    /// How they were found.
    pub method: Method,
}

impl Distribution {
    /// The value at a percentile that was kept; `None` where fewer than one value lies beyond it,
    /// so that it would say no more than the extreme: below 100 values there is no p99.
    pub fn at(&self, percentile: Percentile) -> Option<f64> {
        if !self.supports(percentile) {
            return None;
        }
        let found = self.quantiles.iter().find(|q| q.at == percentile);
        found.map(|quantile| quantile.value)
    }

    /// Whether there are enough values for a percentile.
    pub fn supports(&self, percentile: Percentile) -> bool {
        let fraction = percentile.fraction();
        let beyond = fraction.min(1.0 - fraction) * self.count as f64;
        beyond > 1.0 - 1e-6
    }
}
