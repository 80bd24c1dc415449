//! What of a trace decides the size of a deployment.

use super::{Trace, prefixes};
use gpuwise_domain::workload::{LengthDistribution, Lengths, Traffic};
use gpuwise_units::{PerSecond, Tokens};
use std::collections::BTreeSet;

/// Seconds over which the busiest rate is taken.
const BUSIEST_SECONDS: f64 = 60.0;

/// A trace in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSummary {
    pub requests: u64,
    /// Seconds from the first to the last.
    pub seconds: f64,
    /// Mean requests a second; `None` where the trace has no times or no duration.
    pub rate: Option<f64>,
    /// Requests a second in the busiest minute; of a shorter trace, its mean.
    pub busiest_rate: Option<f64>,
    /// Squared coefficient of variation of the gaps between requests (1 for Poisson).
    pub burstiness: Option<f64>,
    pub input: LengthSummary,
    pub output: LengthSummary,
    /// Share of blocks that an infinite prefix cache would hold where the trace gives blocks, and of
    /// prompt tokens where it gives prefix groups.
    pub prefix_hit: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthSummary {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: u64,
    /// Squared coefficient of variation (0: all equal).
    pub variation: f64,
}

impl Trace {
    /// The trace in figures. Percentiles interpolate linearly, as numpy's.
    pub fn summary(&self) -> TraceSummary {
        let arrivals: Vec<f64> = self
            .requests
            .iter()
            .map(|request| request.due.seconds().get())
            .collect();
        let seconds = arrivals.last().copied().unwrap_or(0.0);
        let gaps = arrivals.len().saturating_sub(1);
        let rate = (self.timed && seconds > 0.0).then(|| gaps as f64 / seconds);
        TraceSummary {
            requests: self.requests.len() as u64,
            seconds,
            rate,
            busiest_rate: rate.map(|mean| busiest_rate(&arrivals).unwrap_or(mean)),
            burstiness: rate.map(|_| {
                let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
                squared_variation(gaps)
            }),
            input: LengthSummary::of(self.requests.iter().map(|request| request.input).collect()),
            output: LengthSummary::of(self.requests.iter().map(|request| request.output).collect()),
            prefix_hit: self.prefix_hit(),
        }
    }

    /// Prompt tokens that an earlier request had, of all; where blocks are given, blocks of all
    /// blocks, as such traces are told of. `None` where the trace says nothing of what is shared.
    fn prefix_hit(&self) -> Option<f64> {
        let mut seen = BTreeSet::new();
        let (mut hits, mut all) = (0_u64, 0_u64);
        let mut told = false;
        for request in &self.requests {
            let (mut chain, mut hit) = (0_u64, true);
            for segment in request.prefix.iter().flatten() {
                told = true;
                let weight = match self.block_tokens {
                    Some(_) => 1,
                    None => u64::from(segment.tokens),
                };
                chain = prefixes::chained(chain, *segment);
                hit &= !seen.insert(chain);
                hits += if hit { weight } else { 0 };
                all += u64::from(self.block_tokens.is_some());
            }
            if self.block_tokens.is_none() {
                all += u64::from(request.input);
            }
        }
        (told && all > 0).then(|| hits as f64 / all as f64)
    }
}

impl TraceSummary {
    /// Requests at random at the mean rate with the trace's burstiness, if it has times.
    pub fn traffic(&self) -> Option<Traffic> {
        Some(Traffic::Open {
            rate: PerSecond::new(self.rate?),
            burstiness: self.burstiness?,
        })
    }

    /// Lengths as a workload states them.
    pub fn lengths(&self) -> Lengths {
        Lengths {
            input: self.input.distribution(),
            output: self.output.distribution(),
        }
    }
}

impl LengthSummary {
    /// Of at least one length; of none, zeros.
    fn of(mut lengths: Vec<u32>) -> Self {
        lengths.sort_unstable();
        let mean = lengths.iter().map(|length| f64::from(*length)).sum::<f64>()
            / lengths.len().max(1) as f64;
        let quantile = |fraction: f64| {
            let place = fraction * lengths.len().saturating_sub(1) as f64;
            let below = place as usize;
            let at = |index: usize| {
                lengths
                    .get(index)
                    .or(lengths.last())
                    .map_or(0.0, |length| f64::from(*length))
            };
            at(below) + (at(below + 1) - at(below)) * (place - below as f64)
        };
        Self {
            mean,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: lengths.last().map_or(0, |length| u64::from(*length)),
            variation: squared_variation(lengths.iter().map(|length| f64::from(*length))),
        }
    }

    /// As a workload states it.
    pub fn distribution(&self) -> LengthDistribution {
        LengthDistribution {
            mean: self.mean,
            variation: self.variation,
            longest: Tokens(self.max),
        }
    }
}

/// Variance over the squared mean; 0 where the mean is.
fn squared_variation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    if mean <= 0.0 {
        return 0.0;
    }
    let variance = values
        .map(|value| (value - mean) * (value - mean))
        .sum::<f64>()
        / count;
    variance / (mean * mean)
}

/// The most requests within a minute that begins with one, as a rate; `None` below a minute.
fn busiest_rate(arrivals: &[f64]) -> Option<f64> {
    if arrivals.last().copied().unwrap_or(0.0) < BUSIEST_SECONDS {
        return None;
    }
    let mut most = 0;
    let mut begin = 0;
    for (end, arrival) in arrivals.iter().enumerate() {
        while arrival - arrivals[begin] >= BUSIEST_SECONDS {
            begin += 1;
        }
        most = most.max(end - begin + 1);
    }
    Some(most as f64 / BUSIEST_SECONDS)
}
