//! Ranges: how far measured values lay from predictions that had not seen them.
//!
//! For every class of metrics, every grade of basis and, where enough rows and groups stand behind it,
//! every engine version bucket, the 10 % and 90 % quantiles of ln(measured / predicted) are kept. Each row was
//! predicted by constants fitted without its configuration, GPU, family or table, and tells of the
//! grade that it had without them. A range multiplies the figure by their exponentials, so it need
//! not be symmetric.

use crate::{
    engines,
    metric::{Metric, Statistic},
};
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{engine::EngineKind, estimate::Basis};

gpuwise_units::named! {
    /// Metrics whose errors are alike.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum MetricClass: key {
        /// Time to first token under load.
        Ttft = "ttft",
        /// A high percentile of it.
        TtftTail = "ttft_tail",
        /// Time per output token.
        Tpot = "tpot",
        /// A high percentile of it.
        TpotTail = "tpot_tail",
        EndToEnd = "end_to_end",
        Throughput = "throughput",
        /// A static batch's latency.
        Batch = "batch",
        /// A static batch's throughput, which errs the other way.
        BatchThroughput = "batch_throughput",
        /// A static batch's first tokens.
        BatchFirst = "batch_first_token",
        /// Prompt tokens a second of one stream.
        PromptSpeed = "prompt_speed",
        /// Generated tokens a second of one stream.
        DecodeSpeed = "decode_speed",
    }
}

impl MetricClass {
    /// The class of the mean, where this is one of a high percentile.
    pub const fn mean(self) -> Option<Self> {
        match self {
            Self::TtftTail => Some(Self::Ttft),
            Self::TpotTail => Some(Self::Tpot),
            _ => None,
        }
    }

    pub const fn of(wanted: Metric) -> Self {
        const fn tail(statistic: Statistic) -> bool {
            match statistic {
                Statistic::Mean => false,
                Statistic::Quantile(fraction) => fraction > 0.8,
            }
        }
        match wanted {
            Metric::Ttft(statistic) if tail(statistic) => Self::TtftTail,
            Metric::Ttft(_) => Self::Ttft,
            Metric::Tpot(statistic) if tail(statistic) => Self::TpotTail,
            Metric::Tpot(_) => Self::Tpot,
            Metric::EndToEnd(_) => Self::EndToEnd,
            Metric::BatchFirstToken => Self::BatchFirst,
            Metric::BatchLatency => Self::Batch,
            Metric::BatchThroughput => Self::BatchThroughput,
            Metric::PromptSpeed => Self::PromptSpeed,
            Metric::DecodeSpeed => Self::DecodeSpeed,
            Metric::OutputThroughput
            | Metric::OutputThroughputPerGpu
            | Metric::TotalThroughput
            | Metric::RequestThroughput => Self::Throughput,
        }
    }

    /// Whether it is of first tokens of requests that are served.
    pub const fn is_first_token(self) -> bool {
        matches!(self, Self::Ttft | Self::TtftTail)
    }

    /// Whether it says what prompts take, and not what steps take that decode.
    pub const fn is_of_prompts(self) -> bool {
        matches!(
            self,
            Self::Ttft | Self::TtftTail | Self::BatchFirst | Self::PromptSpeed
        )
    }

    pub fn by_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.key() == key)
    }
}

/// Factors by which a figure is multiplied to get the ends of its 80 % range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// For the lower end, at most 1.
    pub low: f64,
    /// For the upper end, at least 1.
    pub high: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RangeRow {
    /// Whether it is of llama.cpp's constants, not of servers'.
    pub local: bool,
    pub class: MetricClass,
    /// The engine version bucket; empty: all of them.
    pub bucket: String,
    /// The grade of the questions that it is for.
    pub basis: Basis,
    pub range: Range,
    /// Unique rows that it rests on.
    pub rows: u64,
    /// Groups that were left out for it: parts, GPUs, families, tables.
    pub groups: u64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranges {
    /// By class, bucket and grade.
    pub rows: Vec<RangeRow>,
}

/// Where nothing was measured of a class.
const UNKNOWN: Range = Range {
    low: 0.33,
    high: 3.0,
};

impl Ranges {
    /// The range of a metric for a grade: that of the bucket, else that of all buckets; where the
    /// grade has none of the class, that of the next looser grade; for a tail, that of the mean,
    /// opened; else a factor of three. What stands in for another is never narrower than what it
    /// stands in for would be of looser questions.
    pub fn get(&self, class: MetricClass, engine: EngineKind, bucket: &str, basis: Basis) -> Range {
        let local = engines::model(engine).is_local();
        self.of_class(class, local, bucket, basis)
            .or_else(|| {
                self.of_class(class.mean()?, local, bucket, basis)
                    .map(Range::opened)
            })
            .unwrap_or(UNKNOWN)
    }

    fn of_class(
        &self,
        class: MetricClass,
        local: bool,
        bucket: &str,
        basis: Basis,
    ) -> Option<Range> {
        let find = |bucket: &str, basis: Basis| {
            self.rows
                .iter()
                .find(|row| {
                    row.local == local
                        && row.class == class
                        && row.bucket == bucket
                        && row.basis == basis
                })
                .map(|row| row.range)
        };
        let looser = [Basis::Calibrated, Basis::Transferred, Basis::Extrapolated];
        looser
            .into_iter()
            .filter(|other| *other >= basis)
            .find_map(|basis| find(bucket, basis).or_else(|| find("", basis)))
    }
}

impl Range {
    /// A quarter wider in logarithm.
    fn opened(self) -> Self {
        Self {
            low: libm::pow(self.low, 1.25),
            high: libm::pow(self.high, 1.25),
        }
    }

    /// That of a sum of which this is the range of such a share.
    #[must_use]
    pub fn of_part(self, share: f64) -> Self {
        Self {
            low: 1.0 - share * (1.0 - self.low),
            high: 1.0 + share * (self.high - 1.0),
        }
    }

    /// The range where another cause, independent of this one, errs too: logarithms add in squares.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let both = |a: f64, b: f64| libm::hypot(libm::log(a), libm::log(b));
        Self {
            low: libm::exp(-both(self.low, other.low)),
            high: libm::exp(both(self.high, other.high)),
        }
    }

    /// The least range that holds both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}
