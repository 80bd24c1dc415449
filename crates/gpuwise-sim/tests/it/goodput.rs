//! Goodput, throughput and what was due: of the same requests over the same time; and tokens that nobody
//! saw come.

// What a run is known to have is unwrapped.
#![allow(clippy::unwrap_used)]

use crate::metrics::{SECOND, close, even, frame, record, run, slo, unserved};
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{Metric, TokenCounts},
    workload::Slo,
};
use gpuwise_sim::metrics::{Frame, Recorder, RecorderSettings};
use gpuwise_units::{Nanoseconds, PerSecond};
use proptest::prelude::*;

#[test]
fn of_whole_answers_tokens_are_known_by_the_servers_count_alone() {
    let mut whole = even();
    for record in &mut whole {
        record.first_token = None;
    }
    let counted = run(RecorderSettings::default(), &whole);
    let rate = |found: Option<PerSecond>| found.unwrap().get();
    assert!(close(rate(counted.steady.output_tokens), 11.0, 0.02));
    assert!(close(
        rate(counted.whole.output_tokens),
        1100.0 / 100.2,
        1e-12
    ));
    assert!(counted.distribution(Metric::Ttft).is_none());
    // Between tokens that nobody saw no SLO is kept.
    let promised = RecorderSettings {
        slo: slo(None, Some(0.1)),
        ..RecorderSettings::default()
    };
    assert_eq!(run(promised.clone(), &whole).attainment.kept, Some(false));
    let mut recorder = Recorder::new(RecorderSettings {
        slo: Slo {
            throughput: Some(PerSecond::new(1.0)),
            ..Slo::default()
        },
        ..promised
    });
    for record in &mut whole {
        record.output = 0;
        recorder.request(record);
    }
    let unknown = recorder.finish(Frame {
        tokens: Some(TokenCounts {
            unknown: 100,
            ..TokenCounts::default()
        }),
        ..frame()
    });
    assert_eq!(unknown.steady.output_tokens, None);
    assert_eq!(unknown.whole.output_tokens, None);
    assert_eq!(unknown.attainment.kept, None, "nobody can judge it");
    assert!(unknown.distribution(Metric::Output).is_none());
    let buckets = unknown.series.unwrap().buckets;
    assert!(buckets.iter().all(|bucket| bucket.output_tokens.is_none()));
}

#[test]
fn a_promise_to_one_tenant_is_judged_by_its_requests() {
    let mut records = even();
    for record in &mut records {
        record.tenant = 1 + u16::from(record.number % 4 == 0);
        if record.tenant == 2 {
            // The other is slow, and fills the window.
            record.first_token = Some(Nanoseconds(record.due.0 + SECOND));
        }
    }
    let settings = RecorderSettings {
        slo: slo(Some((95.0, 0.3)), None),
        ..RecorderSettings::default()
    };
    let all = run(settings.clone(), &records);
    assert_eq!(all.attainment.kept, Some(false));
    let own = run(
        RecorderSettings {
            slo_of: Some(1),
            ..settings
        },
        &records,
    );
    assert_eq!(own.attainment.kept, Some(true));
    assert_eq!(
        (own.attainment.judged, own.attainment.share),
        (75, Some(1.0))
    );
    assert!(close(own.traffic.delivered.unwrap().get(), 0.75, 0.02));
    assert!(own.attainment.goodput.unwrap().get() <= 0.76);
    assert!(
        close(own.steady.requests.unwrap().get(), 1.0, 0.02),
        "both are served"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Goodput is a part of what was served, and that of what was due, over one window.
    #[test]
    fn goodput_is_within_throughput_and_throughput_within_what_was_due(
        requests in proptest::collection::vec((0_u64..1 << 36, 0_u64..1 << 34, any::<bool>()), 2..120),
        bound in 0.0_f64..12.0, warm_up in prop_oneof![Just(0_u64), 0_u64..1 << 35],
    ) {
        let records: Vec<RequestRecord> = (0..).zip(&requests).map(|(number, (due, time, served))| {
            if *served {
                record(number, *due, due + time / 2, due + time)
            } else {
                unserved(number, *due, due + time, Outcome::Failed)
            }
        }).collect();
        let settings = RecorderSettings {
            steady_from: Nanoseconds(warm_up),
            slo: slo(Some((90.0, bound)), None),
            ..RecorderSettings::default()
        };
        let report = run(settings, &records);
        let (from, to) = (report.span.steady_from.0, report.span.steady_to.0);
        let window = (to - from) as f64 / 1e9;
        prop_assume!(window > 0.0);
        let inside = |one: &&RequestRecord| (from..to).contains(&one.due.0);
        let served = |one: &&RequestRecord| one.outcome == Outcome::Completed;
        let met = |one: &&RequestRecord| one.ttft().is_some_and(|wait| wait.0 as f64 <= bound * 1e9);
        let due = records.iter().filter(inside).count() as f64;
        let counted = records.iter().filter(inside).filter(served).count() as f64;
        let good = records.iter().filter(inside).filter(served).filter(met).count() as f64;
        let ends = records.iter().filter(|one| one.due.0 >= from).filter(served).map(|one| one.end.0);
        let (first, last) = ends.fold((u64::MAX, 0), |(low, high), end| (low.min(end), high.max(end)));
        let lasted = window.max(last.saturating_sub(first) as f64 / 1e9);
        let rate = |found: Option<PerSecond>| found.unwrap().get();
        let (goodput, throughput, delivered) = (
            rate(report.attainment.goodput),
            rate(report.steady.requests),
            rate(report.traffic.delivered),
        );
        prop_assert!(goodput <= throughput && throughput <= delivered, "{goodput} {throughput} {delivered}");
        prop_assert!(close(delivered, due / window, 1e-9));
        // Between the time in which they were due and that in which they ended.
        prop_assert!(throughput >= counted / lasted * (1.0 - 1e-9), "{throughput}");
        prop_assert!(throughput <= counted / window * (1.0 + 1e-9), "{throughput}");
        prop_assert!(close(goodput * counted, throughput * good, 1e-9), "{goodput}");
    }
}

/// More comes than is served: throughput is what the server sustains, not what came.
#[test]
fn of_what_comes_too_fast_goodput_is_what_is_served() {
    let records: Vec<RequestRecord> = (0..100)
        .map(|n| {
            // Ten a second come, five a second are served, each fast once it is its turn.
            let end = 2 * SECOND + n * SECOND / 5;
            record(n, n * SECOND / 10, end - SECOND, end)
        })
        .collect();
    let report = run(
        RecorderSettings {
            slo: slo(None, Some(0.2)),
            ..RecorderSettings::default()
        },
        &records,
    );
    assert_eq!(report.attainment.share, Some(1.0), "TPOT alone is promised");
    let goodput = report.attainment.goodput.unwrap().get();
    assert!(close(goodput, 5.0, 0.02), "{goodput}");
    assert_eq!(report.attainment.goodput, report.steady.requests);
    assert!(close(report.traffic.delivered.unwrap().get(), 10.0, 1e-9));
}

/// One request that takes long does not make a run longer in which as many are served as come.
#[test]
fn a_straggler_at_the_end_takes_nothing_from_goodput() {
    let records: Vec<RequestRecord> = (0..100)
        .map(|n| {
            let took = if n == 97 { 50 } else { 2 };
            record(n, n * SECOND, n * SECOND + 1, (n + took) * SECOND)
        })
        .collect();
    let goodput = run(RecorderSettings::default(), &records)
        .attainment
        .goodput;
    assert!(close(goodput.unwrap().get(), 1.0, 0.03), "{goodput:?}");
}

/// A run that is shorter than its latencies has served nothing within its window, and yet all in time.
#[test]
fn a_short_run_has_a_goodput() {
    let records: Vec<RequestRecord> = (0..20)
        .map(|n| record(n, n * SECOND, n * SECOND + 1, (n + 60) * SECOND))
        .collect();
    let report = run(RecorderSettings::default(), &records);
    assert_eq!(report.attainment.goodput, Some(PerSecond::new(1.0)));
    assert_eq!(report.steady.requests, Some(PerSecond::new(1.0)));
}
