//! Values of many requests in a few numbers.

use alloc::vec::Vec;
use gpuwise_units::Percentile;

/// What is measured of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Time to first token, from when the request was due.
    Ttft,
    /// Time per output token after the first, for each request of at least two.
    Tpot,
    /// Gaps between tokens (or chunks) that follow one another, of all requests pooled.
    InterToken,
    /// From when the request was due to its last token.
    EndToEnd,
    /// End to end divided by the output tokens.
    Normalised,
    /// From when the request was sent until it was first in a batch.
    Queueing,
    /// Tokens of the prompt (ISL).
    Input,
    /// Tokens generated (OSL).
    Output,
    /// From when the request was due until the client sent it.
    ClientDelay,
}

/// In what a metric is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricUnit {
    Seconds,
    Tokens,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Ttft,
        Self::Tpot,
        Self::InterToken,
        Self::EndToEnd,
        Self::Normalised,
        Self::Queueing,
        Self::Input,
        Self::Output,
        Self::ClientDelay,
    ];

    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::InterToken => "inter-token",
            Self::EndToEnd => "end to end",
            Self::Normalised => "end to end / token",
            Self::Queueing => "queueing",
            Self::Input => "ISL",
            Self::Output => "OSL",
            Self::ClientDelay => "client delay",
        }
    }

    /// As files name it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::InterToken => "inter_token",
            Self::EndToEnd => "end_to_end",
            Self::Normalised => "normalised",
            Self::Queueing => "queueing",
            Self::Input => "input",
            Self::Output => "output",
            Self::ClientDelay => "client_delay",
        }
    }

    /// In what it is counted.
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
    /// Which share.
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
