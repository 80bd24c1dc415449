//! Runs made by hand, with plausible figures.

use gpuwise_domain::{
    estimate::Estimate,
    request::{Outcome, RequestRecord},
    run::{
        Attainment, Bucket, Comparison, ComparisonRow, ComparisonUnit, Distribution, EngineUse,
        Gauge, Group, Knee, Ladder, LoadUnit, Method, Metric, Origin, Outcomes, Part, Quantile,
        Reason, Repeat, RunReport, RunSet, RunTraffic, Rung, Saturation, Series, SloMetric, Slope,
        Span, Spent, Subject, Throughput, TokenCounts, Verdict,
    },
    workload::{Slo, Target},
};
use gpuwise_units::{Joules, Money, Nanoseconds, PerSecond, Percentile, Seconds};

const SECOND: u64 = 1_000_000_000;

/// Shares of a curve that rises slowly to a long tail.
fn tail(percent: f64) -> f64 {
    0.55 + 0.45 * (percent / 50.0)
        + 1.6 * (percent / 100.0).powi(12)
        + 2.0 * (percent / 100.0).powi(60)
}

fn distribution(count: u64, median: f64) -> Distribution {
    let percents = [
        1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9,
    ];
    Distribution {
        count,
        mean: median * 1.08,
        minimum: median * 0.5,
        maximum: median * 5.2,
        deviation: median * 0.4,
        quantiles: percents
            .map(|percent| Quantile {
                at: Percentile::from_percent(percent).unwrap(),
                value: median * tail(percent),
            })
            .to_vec(),
        method: Method::Exact,
    }
}

fn group(part: Part, outcomes: Outcomes, slower: f64, attained: Option<f64>) -> Group {
    let count = outcomes.completed;
    let metrics = [
        (Metric::Ttft, 0.31 * slower),
        (Metric::Tpot, 0.0214),
        (Metric::InterToken, 0.0203),
        (Metric::EndToEnd, 4.84 * slower),
        (Metric::Normalised, 0.0251),
        (Metric::Queueing, 0.082 * slower),
        (Metric::Input, 1012.0),
        (Metric::Output, 187.0),
    ];
    Group {
        part,
        outcomes,
        distributions: metrics
            .map(|(metric, median)| (metric, distribution(count, median)))
            .to_vec(),
        attained,
    }
}

fn target(seconds: f64) -> Target {
    Target {
        percentile: Some(Percentile::P95),
        at_most: Seconds::new(seconds),
    }
}

pub(crate) fn slo() -> Slo {
    Slo {
        ttft: Some(target(1.0)),
        tpot: Some(target(0.04)),
        ..Slo::default()
    }
}

fn series() -> Series {
    let buckets = (0..174).map(|at| {
        let x = f64::from(at) / 174.0;
        let wave = 1.0 + 0.3 * (x * 21.0).sin() + 0.12 * (x * 77.0).cos();
        let burst = if (0.55..0.7).contains(&x) { 1.7 } else { 1.0 };
        let drain = if x > 0.97 { (1.0 - x) / 0.03 } else { 1.0 };
        let running = 38.0 * wave * burst * drain;
        let waiting = (running - 62.0).max(0.0) * 0.8;
        Bucket {
            offered: if x > 0.97 { 0 } else { 24 },
            completed: 23,
            unserved: u64::from(at % 40 == 7),
            output_tokens: Some(5100.0 * wave.min(1.25) * drain),
            concurrent: running + waiting,
            running: Some(running),
            waiting: Some(waiting),
            cache_use: Some((running / 95.0).min(0.98)),
            ttft_p50: (x < 0.97).then_some(0.28 * wave * burst),
            ttft_p95: (x < 0.97).then_some(0.52 * wave * burst * burst),
        }
    });
    Series {
        start: Nanoseconds(0),
        width: Nanoseconds(3 * SECOND),
        buckets: buckets.collect(),
    }
}

fn outcomes() -> Outcomes {
    Outcomes {
        completed: 3988,
        rejected: 9,
        timed_out: 3,
        ..Outcomes::default()
    }
}

fn subject() -> Subject {
    Subject {
        model: "meta-llama/Llama-3.1-70B-Instruct".into(),
        deployment: Some("2 × H100 SXM5 80GB, TP2, fp8 weights".into()),
        engine: Some("vllm".into()),
        release: Some("0.15.1".into()),
        gpu: Some("H100 SXM5 80GB".into()),
        gpus: Some(2),
        replicas: Some(1),
        server: None,
    }
}

fn attainment() -> Attainment {
    let verdict = |about, bound: f64, found: f64, attained: f64| Verdict {
        about,
        at: Some(Percentile::P95),
        bound,
        found: Some(found),
        attained: Some(attained),
        kept: Some(found <= bound),
    };
    Attainment {
        slo: slo(),
        verdicts: vec![
            verdict(SloMetric::Ttft, 1.0, 0.58, 0.987),
            verdict(SloMetric::Tpot, 0.04, 0.0306, 0.998),
        ],
        kept: Some(true),
        judged: 3810,
        share: Some(0.9858),
        goodput: Some(PerSecond::new(7.86)),
    }
}

fn reasons() -> Vec<Reason> {
    vec![
        Reason {
            outcome: Outcome::Rejected,
            text: "queue limit of 512 requests".into(),
            count: 9,
            first: "request 2311 at 5 min".into(),
        },
        Reason {
            outcome: Outcome::TimedOut,
            text: "no first token within 30 s".into(),
            count: 3,
            first: "request 2298 at 5 min".into(),
        },
    ]
}

fn engine() -> EngineUse {
    EngineUse {
        batch: Some(Gauge {
            mean: 39.6,
            highest: 88.0,
        }),
        waiting: Some(Gauge {
            mean: 1.9,
            highest: 31.0,
        }),
        cache_use: Some(Gauge {
            mean: 0.41,
            highest: 0.98,
        }),
        cache_hit: Some(0.124),
        busy: Some(0.913),
        steps: Some(24_310),
        preemptions: Some(17),
        prefill_tokens: Some(4_051_220),
        decode_tokens: Some(838_100),
    }
}

fn traffic() -> RunTraffic {
    RunTraffic {
        words: "Poisson, 8 requests/s".into(),
        offered: Some(PerSecond::new(8.0)),
        delivered: Some(PerSecond::new(8.04)),
        concurrent: None,
        requests: 4000,
        input: Some(1155.2),
        output: Some(210.8),
    }
}

/// A simulated run that keeps its SLO.
pub(crate) fn report() -> RunReport {
    let rate = |value: f64| Some(PerSecond::new(value));
    RunReport {
        subject: subject(),
        origin: Origin::Simulated,
        repeat: Repeat {
            version: "0.1.0".into(),
            arguments: [
                "gpuwise",
                "simulate",
                "deployment.json",
                "--rate",
                "8",
                "--seed",
                "7",
            ]
            .map(String::from)
            .to_vec(),
            seed: 7,
        },
        traffic: traffic(),
        span: Span {
            first_due: Nanoseconds(0),
            last_due: Nanoseconds(503 * SECOND),
            end: Nanoseconds(520 * SECOND),
            steady_from: Nanoseconds(25 * SECOND),
            steady_to: Nanoseconds(503 * SECOND),
        },
        attainment: attainment(),
        whole: Throughput {
            requests: rate(7.67),
            input_tokens: rate(8860.0),
            output_tokens: rate(1616.0),
            concurrent: Some(41.0),
        },
        steady: Throughput {
            requests: rate(7.98),
            input_tokens: rate(9218.0),
            output_tokens: rate(1682.0),
            concurrent: Some(42.6),
        },
        reasons: reasons(),
        groups: vec![group(Part::All, outcomes(), 1.0, Some(0.9858))],
        tokens: TokenCounts {
            served_input: Some(4_606_938),
            served_output: Some(840_670),
            ..TokenCounts::default()
        },
        engine: engine(),
        spent: Spent {
            gpu_seconds: Some(1040.0),
            energy: Some(Joules::new(541_000.0)),
            money: Some(Money::from_decimal("0.86", "USD".parse().unwrap()).unwrap()),
            tokens: 5_447_608,
        },
        series: Some(series()),
        saturation: Some(Saturation {
            concurrent: Slope {
                per_second: 0.001,
                low: -0.02,
                high: 0.022,
            },
            ttft: Slope {
                per_second: 0.0,
                low: -0.0002,
                high: 0.0002,
            },
            saturated: false,
        }),
        limited_by: Some("prefill: 61 % of the time of steps".into()),
        notes: vec!["Cache transfers between replicas take no time.".into()],
    }
}

/// A measured run that misses its SLO, with tenants, failures and a rising queue.
pub(crate) fn overloaded() -> RunReport {
    let mut report = report();
    let all = Outcomes {
        completed: 2310,
        rejected: 640,
        timed_out: 120,
        failed: 14,
        unfinished: 41,
        impossible: 2,
    };
    report.origin = Origin::Measured {
        started: "2026-11-21T14:02:11Z".into(),
        client: Some("2 × Xeon".into()),
    };
    report.subject.deployment = None;
    report.subject.server = Some("http://10.0.0.7:8000/v1".into());
    report.engine = EngineUse::default();
    report.spent = Spent {
        tokens: 3_000_000,
        ..Spent::default()
    };
    report.limited_by = None;
    report.groups = vec![group(Part::All, all, 9.0, Some(0.31))];
    for (name, slower) in [("search", 8.0), ("<b>chat & co</b>", 10.0)] {
        let outcomes = Outcomes {
            completed: 1155,
            rejected: 320,
            ..Outcomes::default()
        };
        let part = Part::Tenant(name.into());
        report.groups.push(group(part, outcomes, slower, Some(0.3)));
    }
    for (_, values) in &mut report.groups[2].distributions {
        values.count = 60;
    }
    let [ttft, tpot] = &mut report.attainment.verdicts[..] else {
        unreachable!("two targets")
    };
    (ttft.found, ttft.kept, ttft.attained) = (None, Some(false), Some(0.31));
    (tpot.found, tpot.attained) = (Some(0.0391), Some(0.96));
    (report.attainment.kept, report.attainment.share) = (Some(false), Some(0.308));
    report.saturation = Some(Saturation {
        concurrent: Slope {
            per_second: 1.3,
            low: 1.1,
            high: 1.5,
        },
        ttft: Slope {
            per_second: 0.09,
            low: 0.08,
            high: 0.1,
        },
        saturated: true,
    });
    report.tokens = TokenCounts {
        requested_input: Some(2_700_000),
        served_input: Some(2_712_400),
        requested_output: Some(480_000),
        served_output: Some(480_000),
        chunks: Some(311_000),
        uncounted: 12,
        unknown: 0,
    };
    let buckets = report
        .series
        .iter_mut()
        .flat_map(|series| &mut series.buckets);
    for (at, bucket) in buckets.enumerate() {
        bucket.running = None;
        bucket.waiting = None;
        bucket.cache_use = None;
        bucket.concurrent = 40.0 + at as f64 * 3.9;
        let rise = 1.0 + at as f64 * 0.06;
        bucket.ttft_p50 = bucket.ttft_p50.map(|value| value * rise);
        bucket.ttft_p95 = bucket.ttft_p95.map(|value| value * rise);
    }
    report
}

/// Nothing was served.
pub(crate) fn empty() -> RunReport {
    let mut report = overloaded();
    report.groups = vec![Group {
        part: Part::All,
        outcomes: Outcomes {
            failed: 20,
            ..Outcomes::default()
        },
        distributions: Vec::new(),
        attained: None,
    }];
    report.reasons = vec![Reason {
        outcome: Outcome::Failed,
        text: "connection refused \u{1b}[31m|<script>".into(),
        count: 20,
        first: String::new(),
    }];
    report.attainment = Attainment {
        slo: slo(),
        ..Attainment::default()
    };
    report.whole = Throughput::default();
    report.steady = Throughput::default();
    report.series = None;
    report.saturation = None;
    report.tokens = TokenCounts::default();
    report
}

pub(crate) fn ladder() -> Ladder {
    let rungs = [2.0, 4.0, 6.0, 8.0, 10.0, 11.0, 12.0, 14.0].map(|load: f64| {
        let strain = 1.0 / (1.0 - (load / 15.0)).max(0.05);
        let kept = load <= 11.0;
        Rung {
            name: None,
            load,
            delivered: Some(load * 1.006),
            ttft: Some(0.2 * strain.powf(1.25)),
            tpot: Some(0.012 * strain.powf(0.75)),
            end_to_end: Some(2.6 * strain.powf(0.75)),
            goodput: Some(if kept {
                load * 0.99
            } else {
                11.0 - (load - 11.0) * 1.8
            }),
            output_tokens: Some(load * 211.0),
            concurrent: Some(load * 2.7 * strain),
            unserved: if kept { 0.0 } else { 0.04 },
            kept: Some(kept),
            saturated: Some(load > 13.0),
        }
    });
    let mut rungs = rungs.to_vec();
    rungs.push(Rung {
        name: Some("one replica lost".into()),
        load: 8.0,
        delivered: Some(7.9),
        ttft: Some(3.1),
        tpot: Some(0.051),
        end_to_end: Some(14.0),
        goodput: Some(2.2),
        output_tokens: Some(1500.0),
        concurrent: Some(130.0),
        unserved: 0.08,
        kept: Some(false),
        saturated: Some(true),
    });
    Ladder {
        unit: LoadUnit::RequestsPerSecond,
        ttft_at: Some(Percentile::P95),
        tpot_at: Some(Percentile::P95),
        end_to_end_at: Some(Percentile::P95),
        rungs,
        near: Vec::new(),
        expected: Some(8.0),
        knee: Some(Knee {
            load: 11.3,
            nominal: Some(11.2),
            low: 10.9,
            high: 11.7,
            seeds: 5,
            limited_by: "TTFT p95, as prompts wait for prefill".into(),
        }),
    }
}

pub(crate) fn set() -> RunSet {
    let mut slow = overloaded();
    slow.traffic.offered = Some(PerSecond::new(14.0));
    RunSet {
        reports: vec![slow, report()],
        ladder: Some(ladder()),
    }
}

pub(crate) fn comparison() -> Comparison {
    let row = |name: &str, unit, values: [Option<(f64, f64, f64)>; 3]| ComparisonRow {
        name: name.into(),
        unit,
        values: values
            .map(|value| value.map(|(value, low, high)| Estimate { value, low, high }))
            .to_vec(),
    };
    let exact = |value: f64| Some((value, value, value));
    Comparison {
        columns: ["predicted", "simulated", "measured"]
            .map(String::from)
            .to_vec(),
        reference: Some(2),
        rows: vec![
            row(
                "TTFT p95",
                ComparisonUnit::Seconds,
                [Some((0.48, 0.39, 0.62)), exact(0.58), exact(0.55)],
            ),
            row(
                "TPOT mean",
                ComparisonUnit::Seconds,
                [Some((0.029, 0.025, 0.033)), exact(0.0306), exact(0.0298)],
            ),
            row(
                "output tokens/s",
                ComparisonUnit::PerSecond,
                [exact(1690.0), exact(1682.0), exact(1671.0)],
            ),
            row(
                "KV cache in use",
                ComparisonUnit::Share,
                [None, exact(0.41), None],
            ),
        ],
        notes: vec!["The measured server counts tokens by its own tokenizer.".into()],
    }
}

pub(crate) fn record() -> RequestRecord {
    RequestRecord {
        number: 17,
        due: Nanoseconds(2 * SECOND),
        sent: Nanoseconds(2 * SECOND + 1_000_000),
        scheduled: Some(Nanoseconds(2 * SECOND + 121_000_000)),
        first_token: Some(Nanoseconds(2 * SECOND + 420_000_000)),
        end: Nanoseconds(8 * SECOND + 900_000_000),
        input: 1155,
        output: 211,
        cached: Some(512),
        preemptions: 1,
        retries: 0,
        tenant: 3,
        stage: 0,
        session: None,
        replica: Some(2),
        outcome: Outcome::Completed,
    }
}
