//! What a simulated service does: its engine, at the speed that is true, under its lease's traffic.

use super::{desk::AppDesk, sizing::sent};
use crate::simulation::{self, Cluster, Run, Shapes, Simulated};
use gpuwise_account::period::Interval;
use gpuwise_broker::Lease;
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    workload::{Slo, Target},
};
use gpuwise_server::TrueSpeed;
use gpuwise_sim::cluster::Observer;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{LatencyHistogram, ServiceUse};

/// Requests that are simulated one by one for an interval; they stand for all of it.
const SAMPLE: u64 = 400;

/// Bounds of latency histograms in seconds: a twentieth apart, from 0.1 ms to 10 min.
fn bounds() -> Vec<f64> {
    let mut bounds = Vec::new();
    let mut bound = 1e-4;
    while bound < 600.0 {
        bounds.push(bound);
        bound *= 1.05;
    }
    bounds
}

/// What came of the sample, the warm-up aside.
struct Counted {
    from: Nanoseconds,
    slo: Slo,
    requests: u64,
    failed: u64,
    good: u64,
    input: u64,
    output: u64,
    ttft: LatencyHistogram,
    tpot: LatencyHistogram,
    last: Nanoseconds,
}

impl Counted {
    fn new(from: Nanoseconds, slo: Slo) -> Self {
        let histogram = || LatencyHistogram {
            counts: vec![0; bounds().len() + 1],
            bounds: bounds(),
            sum: 0.0,
        };
        Self {
            from,
            slo,
            requests: 0,
            failed: 0,
            good: 0,
            input: 0,
            output: 0,
            ttft: histogram(),
            tpot: histogram(),
            last: from,
        }
    }
}

fn put(histogram: &mut LatencyHistogram, seconds: f64) {
    let place = histogram.bounds.partition_point(|bound| *bound < seconds);
    histogram.counts[place] += 1;
    histogram.sum += seconds;
}

impl Observer for Counted {
    fn record(&mut self, record: &RequestRecord) {
        if record.due < self.from {
            return;
        }
        self.last = self.last.max(record.due);
        if record.outcome != Outcome::Completed {
            self.failed += 1;
            return;
        }
        self.requests += 1;
        self.input += u64::from(record.input);
        self.output += u64::from(record.output);
        let within = |target: Option<Target>, seconds: Option<f64>| {
            let pair = target.zip(seconds);
            pair.is_none_or(|(target, seconds)| seconds <= target.at_most.get())
        };
        let first = record.ttft().map(|ttft| ttft.seconds().get());
        let each = record.tpot().map(|tpot| tpot / 1e9);
        if let Some(seconds) = first {
            put(&mut self.ttft, seconds);
        }
        if let Some(seconds) = each {
            put(&mut self.tpot, seconds);
        }
        self.good += u64::from(within(self.slo.ttft, first) && within(self.slo.tpot, each));
    }
}

/// The speed of a model over what is predicted of it.
fn speed_of(model: &str, speeds: &[TrueSpeed]) -> f64 {
    let own = speeds.iter().find(|one| {
        let named = one.model.as_deref();
        named.is_some_and(|named| {
            gpuwise_domain::catalogue::folded(model)
                .contains(&gpuwise_domain::catalogue::folded(named))
        })
    });
    let any = || speeds.iter().find(|one| one.model.is_none());
    own.or_else(any).map_or(1.0, |one| one.speed)
}

impl AppDesk {
    /// What a service tells of an interval, the part of the time that its GPUs work, and joules.
    pub(super) fn simulated(
        &self,
        lease: &Lease,
        within: Interval,
        speeds: &[TrueSpeed],
    ) -> anyhow::Result<(ServiceUse, Option<f64>, Option<f64>)> {
        let text = lease.deployment.as_deref().unwrap_or_default();
        let saved = gpuwise_wire::from_json(text)?;
        // The truth knows nothing of what was learned: it is what there is to learn.
        let knowledge = self.fitted()?;
        let shapes = Shapes::of(&saved.deployment, &self.loaded, self.app.offline)?;
        let deployment = &saved.deployment;
        let drawn_by = u64::from(lease.number) << 32 ^ within.start.0;
        let mut simulated = Simulated::new(deployment, &shapes, &self.loaded, knowledge, drawn_by)?;
        let speed = speed_of(&deployment.model, speeds);
        let cost = simulated.engine.cost.clone();
        simulated.engine.cost = cost.corrected(gpuwise_size::knowledge::Corrections::constant(
            1.0 / speed,
            1.0 / speed,
        ));
        let sent = sent(&lease.ask, &saved, SAMPLE)?;
        let rate = sent.offered().map(gpuwise_units::PerSecond::get);
        let slo = sent.workload.slo.clone();
        let one = Run {
            simulated: &simulated,
            beside: None,
            cluster: Cluster::usual(),
            slo: slo.clone(),
            sent,
            load: 1.0,
            seed: drawn_by,
        };
        // A tenth of the sample fills the batch.
        let lead = rate.map_or(0.0, |rate| SAMPLE as f64 / 10.0 / rate);
        let mut counted = Counted::new(Nanoseconds((lead * 1e9) as u64), slo);
        let constants = knowledge.constants(deployment.engine);
        let report = simulation::run(&one, constants, &mut counted)?;
        let seconds = Nanoseconds(within.length()).seconds().get();
        let sample = Nanoseconds(counted.last.0.saturating_sub(counted.from.0));
        let whole = report.span.whole().get().max(1e-9);
        // At a rate the interval brings as many as it is long; a number in flight: as many as were served.
        let all = rate.map_or(
            seconds * counted.requests as f64 / sample.seconds().get().max(1e-9),
            |rate| rate * seconds,
        );
        let times = all / (counted.requests + counted.failed).max(1) as f64;
        let scaled = |count: u64| (count as f64 * times).round() as u64;
        let histogram = |one: &LatencyHistogram| LatencyHistogram {
            bounds: one.bounds.clone(),
            counts: one.counts.iter().map(|count| scaled(*count)).collect(),
            sum: one.sum * times,
        };
        let requests = scaled(counted.requests);
        let joules = report
            .spent
            .energy
            .map(|energy| energy.get() / whole * seconds);
        let service = ServiceUse {
            prompt_tokens: Some(scaled(counted.input)),
            completion_tokens: Some(scaled(counted.output)),
            requests: Some(requests),
            failed: Some(scaled(counted.failed)),
            good: Some(scaled(counted.good).min(requests)),
            ttft: Some(sparse(&histogram(&counted.ttft))),
            tpot: Some(sparse(&histogram(&counted.tpot))),
            quality: std::collections::BTreeMap::new(),
        };
        Ok((service, report.engine.busy, joules))
    }
}

/// Without bounds that tell nothing: those between two empty buckets.
fn sparse(whole: &LatencyHistogram) -> LatencyHistogram {
    let mut bounds = Vec::new();
    let mut counts = Vec::new();
    let last = whole
        .counts
        .iter()
        .rposition(|count| *count > 0)
        .unwrap_or(0);
    for (place, bound) in whole.bounds.iter().enumerate().take(last + 1) {
        let next = whole.counts.get(place + 1).copied().unwrap_or(0);
        if whole.counts[place] > 0 || next > 0 {
            bounds.push(*bound);
            counts.push(whole.counts[place]);
        }
    }
    counts.push(whole.counts.get(whole.bounds.len()).copied().unwrap_or(0));
    LatencyHistogram {
        bounds,
        counts,
        sum: whole.sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sparse_counts_the_same() {
        let mut whole = LatencyHistogram {
            counts: vec![0; bounds().len() + 1],
            bounds: bounds(),
            sum: 0.0,
        };
        for seconds in [0.02, 0.021, 0.05, 0.9] {
            put(&mut whole, seconds);
        }
        let few = sparse(&whole);
        assert!(few.problem().is_none() && few.bounds.len() < 12, "{few:?}");
        for seconds in [0.01, 0.03, 0.06, 2.0] {
            assert_eq!(few.within(seconds), whole.within(seconds), "{seconds}");
        }
    }

    #[test]
    fn the_speed_of_a_model_goes_before_that_of_all() {
        let speeds = [
            TrueSpeed {
                model: None,
                speed: 0.9,
            },
            TrueSpeed {
                model: Some("llama-3.1-8b".into()),
                speed: 0.8,
            },
        ];
        let of = |model: &str| speed_of(model, &speeds);
        assert!((of("meta-llama/Llama-3.1-8B-Instruct") - 0.8).abs() < 1e-12);
        assert!((of("Qwen/Qwen3-8B") - 0.9).abs() < 1e-12);
    }
}
