//! Distributions against plain sorted lists, and reports against what was recorded.

// What a list is known to hold is unwrapped, and exact results are compared exactly.
#![allow(clippy::unwrap_used, clippy::float_cmp)]

use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Method, Metric, Origin, Part, Repeat, RunReport, SloMetric, Spent, Subject},
    workload::{Slo, Target},
};
use gpuwise_sim::{
    engine::StepRun,
    metrics::{Frame, Histogram, Recorder, RecorderSettings, Samples, percentiles},
};
use gpuwise_units::{Nanoseconds, PerSecond, Percentile, RandomStream, Seconds};
use proptest::prelude::*;

/// A quantile of a sorted list as numpy's default says it.
fn plain(sorted: &[u64], fraction: f64) -> f64 {
    let rank = fraction * (sorted.len() - 1) as f64;
    let below = rank.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high) = (sorted[below] as f64, sorted[above] as f64);
    low + (high - low) * (rank - below as f64)
}

pub(crate) fn close(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= expected.abs() * relative + 1e-9
}

fn check_against_plain(samples: &mut Samples, mut values: Vec<u64>, relative: f64) {
    values.sort_unstable();
    let found = samples.distribution(1.0).unwrap();
    assert_eq!(found.count, values.len() as u64);
    let count = values.len() as f64;
    let mean = values.iter().map(|v| *v as f64).sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|v| (*v as f64 - mean).powi(2))
        .sum::<f64>()
        / count;
    assert!(close(found.mean, mean, 1e-9), "{} {mean}", found.mean);
    assert!(close(found.minimum, values[0] as f64, 0.0));
    assert!(close(found.maximum, values[values.len() - 1] as f64, 0.0));
    let deviation = variance.sqrt();
    assert!(
        (found.deviation - deviation).abs() <= (relative + 1e-6) * (mean + deviation) + 1e-9,
        "{} {deviation}",
        found.deviation
    );
    assert_eq!(found.quantiles.len(), percentiles().len());
    for quantile in &found.quantiles {
        let expected = plain(&values, quantile.at.fraction());
        assert!(
            close(quantile.value, expected, relative + 1e-12),
            "{} of {count}: {} instead of {expected}",
            quantile.at,
            quantile.value
        );
    }
}

fn add(samples: &mut Samples, values: &[u64]) {
    for value in values {
        samples.add(*value);
    }
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![0_u64..50, 0_u64..5_000_000, 1_u64..400_000_000_000];
    proptest::collection::vec(one, 1..400)
}

proptest! {
    #[test]
    fn exact_percentiles_are_those_of_a_sorted_list(values in values()) {
        let mut samples = Samples::default();
        add(&mut samples, &values);
        prop_assert!(samples.is_exact());
        check_against_plain(&mut samples, values, 0.0);
    }

    #[test]
    fn histograms_keep_three_digits(values in values()) {
        let mut samples = Samples::with_limit(0);
        add(&mut samples, &values);
        prop_assert!(!samples.is_exact());
        check_against_plain(&mut samples, values, 0.0005);
    }

    #[test]
    fn merged_is_as_if_added_together(left in values(), right in values(), limit in 0_usize..600) {
        let of = |values: &[u64]| {
            let mut samples = Samples::with_limit(limit);
            add(&mut samples, values);
            samples
        };
        let mut merged = of(&left);
        merged.merge(&of(&right));
        let mut together = of(&[left, right].concat());
        prop_assert_eq!(merged.distribution(1e-9), together.distribution(1e-9));
    }

    #[test]
    fn a_progression_is_its_values(
        first in 0_u64..50_000_000, increment in 0_u64..3000, count in 0_u64..700, weight in 0_u64..4,
        limit in prop_oneof![Just(0_usize), Just(10_000)],
    ) {
        let (mut at_once, mut one_by_one) = (Samples::with_limit(limit), Samples::with_limit(limit));
        at_once.add_progression(first, increment, count, weight);
        for step in 0..count {
            for _ in 0..weight {
                one_by_one.add(first + increment * step);
            }
        }
        prop_assert_eq!(at_once.distribution(1.0), one_by_one.distribution(1.0));
    }

    /// Where some were not served, a percentile is that of all with those slower than any.
    #[test]
    fn quantiles_among_the_unserved(values in values(), unserved in 0_u64..300, fraction in 0.0_f64..1.0) {
        let mut samples = Samples::default();
        add(&mut samples, &values);
        let total = values.len() as u64 + unserved;
        let found = samples.quantile_among(fraction, total);
        let mut all = values;
        all.sort_unstable();
        let served = all.len();
        all.resize(total as usize, u64::MAX);
        let rank = fraction * (total - 1) as f64;
        if rank.ceil() as usize >= served {
            prop_assert_eq!(found, None);
        } else {
            prop_assert!(close(found.unwrap(), plain(&all, fraction), 1e-9));
        }
    }
}

#[test]
fn a_histogram_of_extremes() {
    let mut histogram = Histogram::new(10);
    for value in [0, 1, u64::MAX, u64::MAX / 2, 2047, 2048, 2049] {
        histogram.add(value, 1);
    }
    assert_eq!(histogram.range(), Some((0, u64::MAX)));
    assert_eq!(histogram.quantile(0.0), Some(0.0));
    assert_eq!(histogram.quantile(1.0).unwrap(), u64::MAX as f64);
    let check = |rank: u64, expected: f64| {
        assert!(close(histogram.at_ranks(&[rank])[0], expected, 0.0005));
    };
    for (rank, expected) in [1.0, 2047.0, 2048.0, 2049.0].into_iter().enumerate() {
        check(rank as u64 + 1, expected);
    }
    assert_eq!(Histogram::new(10).quantile(0.5), None);
}

#[test]
fn the_last_exact_value() {
    let mut samples = Samples::with_limit(3);
    add(&mut samples, &[5, 1, 3]);
    assert_eq!(samples.distribution(1.0).unwrap().method, Method::Exact);
    samples.add(4);
    let found = samples.distribution(1.0).unwrap();
    assert_eq!(found.method, Method::Histogram { digits: 3 });
    assert_eq!((found.count, found.minimum, found.maximum), (4, 1.0, 5.0));
}

pub(crate) const SECOND: u64 = 1_000_000_000;

pub(crate) fn record(number: u64, due: u64, first: u64, end: u64) -> RequestRecord {
    RequestRecord {
        number,
        due: Nanoseconds(due),
        sent: Nanoseconds(due),
        scheduled: Some(Nanoseconds(due)),
        first_token: Some(Nanoseconds(first)),
        end: Nanoseconds(end),
        input: 100,
        output: 11,
        cached: Some(25),
        preemptions: 0,
        retries: 0,
        tenant: 0,
        stage: 0,
        session: None,
        replica: Some(0),
        outcome: Outcome::Completed,
    }
}

pub(crate) fn unserved(number: u64, due: u64, end: u64, outcome: Outcome) -> RequestRecord {
    RequestRecord {
        first_token: None,
        scheduled: None,
        output: 0,
        outcome,
        ..record(number, due, due, end)
    }
}

pub(crate) fn frame() -> Frame {
    Frame {
        subject: Subject::default(),
        origin: Origin::Simulated,
        repeat: Repeat::default(),
        words: String::new(),
        open: true,
        offered: None,
        concurrent: None,
        spent: Spent::default(),
        tokens: None,
        engine: None,
        limited_by: None,
        notes: Vec::new(),
    }
}

pub(crate) fn slo(ttft: Option<(f64, f64)>, tpot: Option<f64>) -> Slo {
    Slo {
        ttft: ttft.map(|(percent, seconds)| Target {
            percentile: Percentile::from_percent(percent),
            at_most: Seconds::new(seconds),
        }),
        tpot: tpot.map(|seconds| Target {
            percentile: None,
            at_most: Seconds::new(seconds),
        }),
        ..Slo::default()
    }
}

pub(crate) fn run(settings: RecorderSettings, records: &[RequestRecord]) -> RunReport {
    let mut recorder = Recorder::new(settings);
    for record in records {
        recorder.request(record);
    }
    recorder.finish(frame())
}

/// A request a second for a hundred seconds: 0.2 s to the first token, ten more in a second.
pub(crate) fn even() -> Vec<RequestRecord> {
    (0..100)
        .map(|n| {
            let due = n * SECOND;
            record(n, due, due + SECOND / 5, due + SECOND / 5 + SECOND)
        })
        .collect()
}

#[test]
fn an_even_run() {
    let report = run(
        RecorderSettings {
            steady_from: Nanoseconds(10 * SECOND),
            slo: slo(Some((95.0, 0.2)), Some(0.1)),
            ..RecorderSettings::default()
        },
        &even(),
    );
    let ttft = report.distribution(Metric::Ttft).unwrap();
    assert_eq!((ttft.count, ttft.mean, ttft.deviation), (90, 0.2, 0.0));
    assert_eq!(ttft.at(Percentile::P95), Some(0.2));
    assert_eq!(ttft.at(Percentile::P99), None, "90 values have no p99");
    let tpot = report.distribution(Metric::Tpot).unwrap();
    assert!(close(tpot.mean, 0.1, 1e-12));
    assert!(close(
        report.distribution(Metric::EndToEnd).unwrap().mean,
        1.2,
        1e-12
    ));
    assert!(report.distribution(Metric::ClientDelay).is_none());
    assert_eq!(report.attainment.kept, Some(true));
    assert_eq!(report.attainment.share, Some(1.0));
    // A request a second is due, and one is served.
    let goodput = report.attainment.goodput.unwrap().get();
    assert!(close(goodput, 1.0, 0.01), "{goodput}");
    assert_eq!(report.traffic.delivered, Some(PerSecond::new(1.0)));
    assert!(close(report.span.whole().get(), 100.2, 1e-12));
    assert!(close(report.span.warm_up().get(), 10.0, 1e-12));
    assert!(close(report.span.drain().get(), 1.2, 1e-12));
    assert!(close(
        report.whole.output_tokens.unwrap().get(),
        1100.0 / 100.2,
        1e-12
    ));
    // Little: a request a second that stays 1.2 s.
    assert!(close(report.steady.concurrent.unwrap(), 1.2, 0.01));
    assert!(close(
        report.steady.output_tokens.unwrap().get(),
        11.0,
        0.01
    ));
    assert!(close(report.steady.requests.unwrap().get(), 1.0, 0.01));
    assert_eq!(report.engine.cache_hit, Some(0.25));
    assert_eq!(report.engine.steps, None);
    assert_eq!(report.saturation.map(|signs| signs.saturated), Some(false));
    assert_eq!(report.groups.len(), 1, "one tenant and one stage are all");
}

#[test]
fn who_is_not_served_misses() {
    let mut records = even();
    for record in &mut records[50..56] {
        *record = unserved(
            record.number,
            record.due.0,
            record.due.0 + 5,
            Outcome::Rejected,
        );
    }
    let settings = |percent: f64| RecorderSettings {
        slo: slo(Some((percent, 0.3)), None),
        ..RecorderSettings::default()
    };
    let strict = run(settings(95.0), &records);
    let verdict = strict.attainment.verdicts[0];
    assert_eq!((verdict.about, verdict.found), (SloMetric::Ttft, None));
    assert_eq!((verdict.kept, verdict.attained), (Some(false), Some(0.94)));
    let loose = run(settings(90.0), &records).attainment;
    assert_eq!(loose.verdicts[0].found, Some(0.2));
    assert_eq!((loose.kept, loose.share), (Some(true), Some(0.94)));
    // A mean cannot hide them.
    let mean = RecorderSettings {
        slo: slo(None, Some(0.2)),
        ..RecorderSettings::default()
    };
    assert_eq!(run(mean, &records).attainment.kept, Some(false));
    let ttft = strict.distribution(Metric::Ttft).unwrap();
    assert_eq!(ttft.count, 94, "only those served are in distributions");
}

#[test]
fn the_unfinished_miss_what_they_had_missed() {
    let check = |waited: u64, judged: u64, kept: bool| {
        let mut records = even();
        for record in &mut records[90..] {
            *record = unserved(
                record.number,
                record.due.0,
                record.due.0 + waited,
                Outcome::Unfinished,
            );
        }
        let settings = RecorderSettings {
            slo: slo(Some((95.0, 0.5)), None),
            ..RecorderSettings::default()
        };
        let report = run(settings, &records);
        assert_eq!(
            (report.attainment.judged, report.attainment.kept),
            (judged, Some(kept))
        );
        assert_eq!(report.all().unwrap().outcomes.unfinished, 10);
    };
    check(SECOND / 4, 90, true);
    check(SECOND, 100, false);
}

#[test]
fn nothing_to_judge() {
    let settings = RecorderSettings {
        slo: slo(Some((95.0, 0.5)), None),
        ..RecorderSettings::default()
    };
    let empty = run(settings, &[]);
    assert_eq!(empty.attainment.kept, None);
    assert_eq!(empty.attainment.goodput, None);
    assert_eq!((empty.whole.requests, empty.traffic.input), (None, None));
    assert!(empty.series.is_none());
    let one = run(RecorderSettings::default(), &[record(0, 7, 8, 9)]);
    assert_eq!(one.attainment.verdicts, []);
    assert_eq!(one.attainment.kept, None);
    assert_eq!(one.distribution(Metric::Ttft).unwrap().mean, 1e-9);
    assert_eq!(
        one.series
            .unwrap()
            .buckets
            .iter()
            .map(|b| b.completed)
            .sum::<u64>(),
        1
    );
}

#[test]
fn groups_come_to_light() {
    let mut records = even();
    for record in &mut records {
        record.tenant = u16::from(record.number >= 30);
        record.stage = (record.number / 50) as u16;
    }
    let settings = RecorderSettings {
        tenants: vec!["search".into()],
        ..RecorderSettings::default()
    };
    let report = run(settings, &records);
    let counts: Vec<(Part, u64, u64)> = report
        .groups
        .iter()
        .map(|group| {
            let ttft = group.distribution(Metric::Ttft).unwrap();
            (group.part.clone(), group.outcomes.completed, ttft.count)
        })
        .collect();
    assert_eq!(
        counts,
        [
            (Part::All, 100, 100),
            (Part::Tenant("search".into()), 30, 30),
            (Part::Tenant("1".into()), 70, 70),
            (Part::Stage("0".into()), 50, 50),
            (Part::Stage("1".into()), 50, 50),
        ]
    );
}

#[test]
fn beyond_a_million_every_group_is_counted() {
    let mut recorder = Recorder::new(RecorderSettings::default());
    for number in 0..1_000_000 {
        recorder.request(&record(number, number, number + 5, number + 9));
    }
    let kept = recorder.clone().finish(frame());
    let method = |report: &RunReport, at: usize| {
        report.groups[at].distribution(Metric::Ttft).unwrap().method
    };
    assert_eq!(method(&kept, 0), Method::Exact);
    for number in 1_000_000..1_000_010 {
        let mut late = record(number, number, number + 5, number + 9);
        late.tenant = 3 + (number % 2) as u16;
        recorder.request(&late);
    }
    let counted = recorder.finish(frame());
    assert_eq!(counted.groups.len(), 4);
    for at in 0..4 {
        assert_eq!(method(&counted, at), Method::Histogram { digits: 3 });
    }
    assert_eq!(counted.distribution(Metric::Ttft).unwrap().count, 1_000_010);
}

#[test]
fn a_queue_that_grows_is_a_sign() {
    let mut random = RandomStream::new(7, "test", 0);
    let mut records = |growth: f64| -> Vec<RequestRecord> {
        (0..2000_u64)
            .map(|n| {
                let due = n * SECOND / 10;
                let wait = (n as f64 * growth + 0.3 * random.uniform()) * 1e9;
                let first = due + wait as u64;
                record(n, due, first, first + SECOND)
            })
            .collect()
    };
    let signs = run(RecorderSettings::default(), &records(0.0))
        .saturation
        .unwrap();
    assert!(!signs.saturated, "{signs:?}");
    // The hundredth part of each second is not served.
    let signs = run(RecorderSettings::default(), &records(0.001))
        .saturation
        .unwrap();
    assert!(signs.saturated, "{signs:?}");
    assert!(
        signs.ttft.low <= 0.01 && signs.ttft.high >= 0.01,
        "{signs:?}"
    );
}

/// A tenth of a second a step, one more nanosecond each.
fn steps(start: u64, steps: u32, regular: u32) -> StepRun {
    StepRun {
        start,
        steps,
        first: 100_000_000_000,
        increment: 1000,
        decodes: 4,
        regular,
        tokens: 4,
        prefill: 0,
        context: 1000,
        kv_used: 50,
        running: 4,
        waiting: 2,
    }
}

#[test]
fn steps_tell_what_the_engine_did() {
    let mut recorder = Recorder::new(RecorderSettings {
        replicas: 2,
        cache_blocks: 200,
        ..RecorderSettings::default()
    });
    let run = steps(0, 100, 3);
    recorder.steps(&run);
    recorder.steps(&StepRun {
        prefill: 7,
        ..steps(run.end(), 1, 4)
    });
    recorder.gaps(run.end(), 300_000_000_000, 1);
    recorder.request(&record(0, 0, SECOND, 20 * SECOND));
    let report = recorder.finish(frame());
    let gaps = report.distribution(Metric::InterToken).unwrap();
    assert_eq!(gaps.count, 3 + 99 * 4 + 4 + 1);
    assert!(close(gaps.maximum, 0.3, 1e-12));
    let engine = report.engine;
    assert_eq!((engine.steps, engine.prefill_tokens), (Some(101), Some(7)));
    assert_eq!(engine.decode_tokens, Some(404));
    assert_eq!(engine.batch.unwrap().mean, 4.0);
    // 10.1 s of steps in 20 s of two replicas, half of the blocks of one in use meanwhile.
    let busy = engine.busy.unwrap();
    assert!(close(busy, 10.1 / 40.0, 1e-5), "{busy}");
    let cache = engine.cache_use.unwrap();
    assert!(close(cache.mean, 10.1 / 20.0 * 0.25, 1e-5), "{cache:?}");
    let series = report.series.unwrap();
    assert!(series.buckets.len() <= 200);
    let width = series.width.seconds().get();
    let running: f64 = series
        .buckets
        .iter()
        .map(|b| b.running.unwrap() * width)
        .sum();
    assert!((running - 4.0 * 10.1).abs() < width * 4.0, "{running}");
    let tokens: f64 = series
        .buckets
        .iter()
        .map(|b| b.output_tokens.unwrap())
        .sum();
    assert!(close(tokens, 11.0, 1e-9), "{tokens}");
}

#[test]
fn reasons_are_counted_once_each() {
    let mut recorder = Recorder::new(RecorderSettings::default());
    for number in 0..5 {
        recorder.reason(Outcome::Rejected, "429 Too Many Requests", || {
            format!("request {number}")
        });
    }
    recorder.reason(Outcome::Failed, "connection refused", || "request 9".into());
    for number in 0..90 {
        recorder.reason(Outcome::Failed, &format!("odd {number}"), String::new);
    }
    let reasons = recorder.finish(frame()).reasons;
    assert!(reasons.len() <= 32);
    assert_eq!(reasons.iter().map(|reason| reason.count).sum::<u64>(), 96);
    let first = &reasons.iter().find(|r| r.text.starts_with("429")).unwrap();
    assert_eq!((first.count, first.first.as_str()), (5, "request 0"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However long it runs and in whatever order requests end, nothing is lost over time.
    #[test]
    fn series_hold_everything(
        requests in proptest::collection::vec((0_u64..1 << 45, 0_u64..1 << 40, 1_u32..5000), 1..80),
    ) {
        let mut recorder = Recorder::new(RecorderSettings::default());
        let mut lasted = 0.0;
        for (number, (due, time, output)) in requests.iter().enumerate() {
            let mut record = record(number as u64, *due, due + time / 3, due + time);
            record.output = *output;
            lasted += *time as f64;
            recorder.request(&record);
        }
        let report = recorder.finish(frame());
        let series = report.series.unwrap();
        prop_assert!((1..=200).contains(&series.buckets.len()));
        let sum = |pick: fn(&gpuwise_domain::run::Bucket) -> f64| series.buckets.iter().map(pick).sum::<f64>();
        prop_assert_eq!(sum(|b| b.offered as f64), requests.len() as f64);
        prop_assert_eq!(sum(|b| b.completed as f64), requests.len() as f64);
        let tokens: f64 = requests.iter().map(|(.., output)| f64::from(*output)).sum();
        prop_assert!(close(sum(|b| b.output_tokens.unwrap()), tokens, 1e-9));
        // The last stretch ends with the run.
        let width = series.width.0;
        let mut concurrent = 0.0;
        for (at, bucket) in series.buckets.iter().enumerate() {
            let end = ((at as u64 + 1) * width).min(report.span.end.0.max(at as u64 * width + 1));
            concurrent += bucket.concurrent * (end - at as u64 * width) as f64;
        }
        prop_assert!(close(concurrent, lasted, 1e-9), "{} {}", concurrent, lasted);
        let whole = report.whole.concurrent.unwrap_or(0.0) * report.span.whole().get() * 1e9;
        prop_assert!(close(whole, lasted, 1e-9));
    }
}

#[test]
fn a_throughput_may_be_promised() {
    let check = |asked: f64, kept: bool| {
        let report = run(
            RecorderSettings {
                slo: Slo {
                    throughput: Some(PerSecond::new(asked)),
                    ..Slo::default()
                },
                ..RecorderSettings::default()
            },
            &even(),
        );
        assert_eq!(report.attainment.kept, Some(kept));
        assert_eq!(report.attainment.verdicts[0].about, SloMetric::Throughput);
    };
    check(10.5, true);
    check(11.5, false);
}
