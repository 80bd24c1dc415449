//! Ranges: how far measured values lay from predictions that had not seen them.
//!
//! For every class of metrics, and where there are enough rows for an engine profile within it, the
//! 10 % and 90 % quantiles of ln(measured / predicted) are kept, where each row was predicted by
//! constants fitted without its configuration. A range multiplies the figure by their exponentials.
//! Where hardware or engine is unlike anything fitted on, the wider quantiles of folds that left
//! out whole GPUs are used.

use super::super::answer::{Statistic, Wanted};
use alloc::{string::String, vec::Vec};

/// Metrics whose errors are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricClass {
    /// Time to first token under load.
    Ttft,
    /// A high percentile of it.
    TtftTail,
    /// Time per output token.
    Tpot,
    /// A high percentile of it.
    TpotTail,
    /// End-to-end latency.
    EndToEnd,
    /// Throughput under load.
    Throughput,
    /// A static batch's latency or throughput.
    Batch,
    /// A static batch's first tokens.
    BatchFirst,
    /// Prompt tokens a second of one stream.
    PromptSpeed,
    /// Generated tokens a second of one stream.
    DecodeSpeed,
}

impl MetricClass {
    /// Every class.
    pub const ALL: [Self; 10] = [
        Self::Ttft,
        Self::TtftTail,
        Self::Tpot,
        Self::TpotTail,
        Self::EndToEnd,
        Self::Throughput,
        Self::Batch,
        Self::BatchFirst,
        Self::PromptSpeed,
        Self::DecodeSpeed,
    ];

    /// The class of the mean, where this is one of a high percentile.
    pub const fn mean(self) -> Option<Self> {
        match self {
            Self::TtftTail => Some(Self::Ttft),
            Self::TpotTail => Some(Self::Tpot),
            _ => None,
        }
    }

    /// The class of what is asked.
    pub const fn of(wanted: Wanted) -> Self {
        const fn tail(statistic: Statistic) -> bool {
            match statistic {
                Statistic::Mean => false,
                Statistic::Quantile(fraction) => fraction > 0.8,
            }
        }
        match wanted {
            Wanted::Ttft(statistic) if tail(statistic) => Self::TtftTail,
            Wanted::Ttft(_) => Self::Ttft,
            Wanted::Tpot(statistic) if tail(statistic) => Self::TpotTail,
            Wanted::Tpot(_) => Self::Tpot,
            Wanted::EndToEnd(_) => Self::EndToEnd,
            Wanted::BatchFirstToken => Self::BatchFirst,
            Wanted::BatchLatency | Wanted::BatchThroughput => Self::Batch,
            Wanted::PromptSpeed => Self::PromptSpeed,
            Wanted::DecodeSpeed => Self::DecodeSpeed,
            Wanted::OutputThroughput
            | Wanted::OutputThroughputPerGpu
            | Wanted::TotalThroughput
            | Wanted::RequestThroughput => Self::Throughput,
        }
    }

    /// The class of the mean of what this is a tail of.
    const fn of_mean(self) -> Option<Self> {
        match self {
            Self::TtftTail => Some(Self::Ttft),
            Self::TpotTail => Some(Self::Tpot),
            _ => None,
        }
    }

    /// Its key in files.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::TtftTail => "ttft_tail",
            Self::Tpot => "tpot",
            Self::TpotTail => "tpot_tail",
            Self::EndToEnd => "end_to_end",
            Self::Throughput => "throughput",
            Self::Batch => "batch",
            Self::BatchFirst => "batch_first_token",
            Self::PromptSpeed => "prompt_speed",
            Self::DecodeSpeed => "decode_speed",
        }
    }

    /// The class of a key.
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

/// A measured range.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeRow {
    /// The class.
    pub class: MetricClass,
    /// The engine profile; empty: all of them.
    pub profile: String,
    /// Whether it holds where hardware or engine were not fitted on.
    pub extrapolated: bool,
    /// The range.
    pub range: Range,
    /// Unique rows that it rests on.
    pub rows: u64,
}

/// All ranges.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranges {
    /// By class and profile.
    pub rows: Vec<RangeRow>,
}

impl Ranges {
    /// The range of a metric: that of the profile; for a tail without one, that of the profile's
    /// mean, opened; else that of all profiles; else a factor of 2.5.
    pub fn get(&self, class: MetricClass, profile: &str, extrapolated: bool) -> Range {
        let find = |class: MetricClass, profile: &str, extrapolated: bool| {
            self.rows
                .iter()
                .find(|row| {
                    row.class == class && row.profile == profile && row.extrapolated == extrapolated
                })
                .map(|row| row.range)
        };
        let wide = || {
            find(class, "", true).unwrap_or(Range {
                low: 0.4,
                high: 2.5,
            })
        };
        if extrapolated {
            return wide();
        }
        find(class, profile, false)
            .or_else(|| find(class.of_mean()?, profile, false).map(Range::opened))
            .or_else(|| find(class, "", false))
            .unwrap_or_else(wide)
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
}
