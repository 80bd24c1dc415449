//! SLOs against what was served, request by request.

use super::group::{Members, scale, unserved};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Attainment, Metric, SloMetric, Throughput, Verdict},
    workload::{Slo, Target},
};
use gpuwise_units::{PerSecond, Percentile};

/// A mean is no answer where more than this share was not served.
const UNSERVED_BESIDE_A_MEAN: f64 = 0.01;

/// Counts of one target.
#[derive(Debug, Clone, Copy)]
struct Line {
    about: SloMetric,
    metric: Metric,
    at: Option<Percentile>,
    bound: f64,
    /// The bound in nanoseconds.
    nanoseconds: f64,
    /// Requests judged by it.
    judged: u64,
    within: u64,
    /// Of those judged, the ones that have no value because they were not served.
    without: u64,
}

/// How one request did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Met,
    Missed,
    /// It was not finished, and had missed none.
    Open,
}

#[derive(Debug, Clone)]
pub(super) struct Judge {
    slo: Slo,
    lines: Vec<Line>,
}

impl Judge {
    pub(super) fn new(slo: Slo) -> Self {
        let targets: [(SloMetric, Metric, Option<Target>); 3] = [
            (SloMetric::Ttft, Metric::Ttft, slo.ttft),
            (SloMetric::Tpot, Metric::Tpot, slo.tpot),
            (SloMetric::EndToEnd, Metric::EndToEnd, slo.end_to_end),
        ];
        let lines = targets.into_iter().filter_map(|(about, metric, target)| {
            let target = target?;
            Some(Line {
                about,
                metric,
                at: target.percentile,
                bound: target.at_most.get(),
                nanoseconds: target.at_most.get() * 1e9,
                judged: 0,
                within: 0,
                without: 0,
            })
        });
        Self {
            lines: lines.collect(),
            slo,
        }
    }

    pub(super) fn request(&mut self, record: &RequestRecord) -> Judgement {
        match record.outcome {
            Outcome::Completed => self.served(record),
            Outcome::Unfinished => self.unfinished(record),
            _ => {
                for line in &mut self.lines {
                    line.judged += 1;
                    line.without += 1;
                }
                Judgement::Missed
            }
        }
    }

    /// Whether a request that was served met every target; it is not counted.
    pub(super) fn met(&self, record: &RequestRecord) -> bool {
        self.lines.iter().all(|line| line.within(record))
    }

    fn served(&mut self, record: &RequestRecord) -> Judgement {
        let mut met = true;
        for line in &mut self.lines {
            let within = line.within(record);
            line.judged += 1;
            line.within += u64::from(within);
            met &= within;
        }
        if met {
            Judgement::Met
        } else {
            Judgement::Missed
        }
    }

    /// It missed what it had already missed; the rest is open.
    fn unfinished(&mut self, record: &RequestRecord) -> Judgement {
        let mut missed = false;
        for line in &mut self.lines {
            let so_far = match line.metric {
                Metric::Tpot => continue,
                Metric::Ttft => record.ttft().unwrap_or(record.end_to_end()),
                _ => record.end_to_end(),
            };
            if so_far.0 as f64 > line.nanoseconds {
                line.judged += 1;
                line.without += 1;
                missed = true;
            }
        }
        if missed {
            Judgement::Missed
        } else {
            Judgement::Open
        }
    }

    /// Whether there is an SLO.
    pub(super) fn slos(&self) -> bool {
        !self.slo.is_empty()
    }

    /// The verdict over all requests of the window, with the goodput that was found in it.
    pub(super) fn finish(
        self,
        all: &mut Members,
        steady: &Throughput,
        goodput: Option<PerSecond>,
    ) -> Attainment {
        let mut verdicts: Vec<Verdict> = self.lines.iter().map(|line| line.verdict(all)).collect();
        if let Some(asked) = self.slo.throughput {
            let found = steady.output_tokens.map(PerSecond::get);
            verdicts.push(Verdict {
                about: SloMetric::Throughput,
                at: None,
                bound: asked.get(),
                found,
                attained: None,
                kept: found.map(|found| found >= asked.get()),
            });
        }
        // One that is missed is enough; one that nobody could judge leaves the rest open.
        let kept = if verdicts.iter().any(|verdict| verdict.kept == Some(false)) {
            Some(false)
        } else if verdicts.is_empty() || verdicts.iter().any(|verdict| verdict.kept.is_none()) {
            None
        } else {
            Some(true)
        };
        let judged = all.judged;
        Attainment {
            verdicts,
            kept,
            judged,
            share: (!self.slo.is_empty() && judged > 0).then(|| all.met as f64 / judged as f64),
            goodput,
            slo: self.slo,
        }
    }
}

impl Line {
    fn within(&self, record: &RequestRecord) -> bool {
        match latency(record, self.metric) {
            Some(value) => value <= self.nanoseconds,
            // A single token has no time between tokens; of more, whose first nobody saw, it is not known.
            None => self.metric == Metric::Tpot && record.output <= 1,
        }
    }

    fn verdict(&self, all: &mut Members) -> Verdict {
        let found = all.samples(self.metric).and_then(|samples| {
            let total = samples.count() + self.without;
            match self.at {
                Some(percentile) => samples.quantile_among(percentile.fraction(), total),
                None => samples.mean(),
            }
        });
        let found = found.map(|value| value * scale(self.metric));
        let without = self.without as f64 / self.judged.max(1) as f64;
        let served = self.at.is_some() || without <= UNSERVED_BESIDE_A_MEAN;
        // Requests of a single token alone keep any bound between tokens.
        let nothing = self.metric == Metric::Tpot && self.judged == self.within;
        let within = found.is_some_and(|value| value <= self.bound * (1.0 + 1e-12)) || nothing;
        Verdict {
            about: self.about,
            at: self.at,
            bound: self.bound,
            found,
            attained: (self.judged > 0).then(|| self.within as f64 / self.judged as f64),
            kept: (self.judged > 0).then_some(within && served),
        }
    }
}

/// A latency in nanoseconds.
fn latency(record: &RequestRecord, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Ttft => Some(record.ttft()?.0 as f64),
        Metric::Tpot => record.tpot(),
        _ => Some(record.end_to_end().0 as f64),
    }
}

/// Whether a request is judged at all.
pub(super) fn is_judged(outcome: Outcome, judgement: Judgement) -> bool {
    outcome == Outcome::Completed || unserved(outcome) || judgement == Judgement::Missed
}
