//! Saved runs come back as they were.
#![allow(
    clippy::many_single_char_names,
    clippy::too_many_lines,
    reason = "one strategy that draws every field of a report"
)]

use gpuwise_domain::{
    request::Outcome,
    run::{
        Attainment, Bucket, Distribution, EngineUse, Gauge, Group, Knee, Ladder, LoadUnit, Method,
        Metric, Origin, Outcomes, Part, Quantile, Reason, Repeat, RunReport, RunSet, RunTraffic,
        Rung, Saturation, Series, SloMetric, Slope, Span, Spent, Subject, Throughput, TokenCounts,
        Verdict,
    },
    workload::{Slo, Target},
};
use gpuwise_units::{Joules, Money, Nanoseconds, PerSecond, Percentile, Seconds};
use gpuwise_wire::{run_schema, runs_from_json, runs_to_json};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::Value;

fn text() -> impl Strategy<Value = String> {
    "[ -~é–\n\"\\\\]{0,12}"
}

fn real() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("not a number", |real| !real.is_nan())
}

fn rate() -> impl Strategy<Value = Option<PerSecond>> {
    option::of(real().prop_map(PerSecond::new))
}

fn percentile() -> impl Strategy<Value = Percentile> {
    (1_u32..10_000).prop_map(|h| Percentile::from_percent(f64::from(h) / 100.0).unwrap())
}

fn distribution() -> impl Strategy<Value = Distribution> {
    let quantile = (percentile(), real()).prop_map(|(at, value)| Quantile { at, value });
    let method = prop_oneof![
        Just(Method::Exact),
        any::<u32>().prop_map(|digits| Method::Histogram { digits })
    ];
    (any::<u64>(), any::<[f32; 4]>(), vec(quantile, 0..3), method).prop_map(
        |(count, [mean, minimum, maximum, deviation], quantiles, method)| {
            let known = |value: f32| {
                if value.is_nan() {
                    1.5
                } else {
                    f64::from(value)
                }
            };
            Distribution {
                count,
                mean: known(mean),
                minimum: known(minimum),
                maximum: known(maximum),
                deviation: known(deviation),
                quantiles,
                method,
            }
        },
    )
}

fn outcomes() -> impl Strategy<Value = Outcomes> {
    any::<[u64; 6]>().prop_map(
        |[
            completed,
            rejected,
            impossible,
            timed_out,
            failed,
            unfinished,
        ]| Outcomes {
            completed,
            rejected,
            impossible,
            timed_out,
            failed,
            unfinished,
        },
    )
}

fn group() -> impl Strategy<Value = Group> {
    let part = prop_oneof![
        Just(Part::All),
        text().prop_map(Part::Tenant),
        text().prop_map(Part::Stage)
    ];
    let measured = (select(Metric::ALL.to_vec()), distribution());
    (part, outcomes(), vec(measured, 0..3), option::of(real())).prop_map(
        |(part, outcomes, distributions, attained)| Group {
            part,
            outcomes,
            distributions,
            attained,
        },
    )
}

fn attainment() -> impl Strategy<Value = Attainment> {
    let about = select(vec![
        SloMetric::Ttft,
        SloMetric::Tpot,
        SloMetric::EndToEnd,
        SloMetric::Throughput,
    ]);
    let verdict = (
        about,
        option::of(percentile()),
        real(),
        option::of(real()),
        option::of(real()),
        any::<Option<bool>>(),
    )
        .prop_map(|(about, at, bound, found, attained, kept)| Verdict {
            about,
            at,
            bound,
            found,
            attained,
            kept,
        });
    let slo = (option::of((option::of(percentile()), real())), rate()).prop_map(
        |(target, throughput)| Slo {
            ttft: target.map(|(percentile, bound)| Target {
                percentile,
                at_most: Seconds::new(bound),
            }),
            throughput,
            ..Slo::default()
        },
    );
    (
        slo,
        vec(verdict, 0..3),
        any::<Option<bool>>(),
        any::<u64>(),
        option::of(real()),
        rate(),
    )
        .prop_map(|(slo, verdicts, kept, judged, share, goodput)| Attainment {
            slo,
            verdicts,
            kept,
            judged,
            share,
            goodput,
        })
}

fn engine() -> impl Strategy<Value = EngineUse> {
    let gauge = || option::of((real(), real()).prop_map(|(mean, highest)| Gauge { mean, highest }));
    (
        gauge(),
        gauge(),
        gauge(),
        (option::of(real()), option::of(real())),
        any::<[Option<u64>; 4]>(),
    )
        .prop_map(
            |(
                batch,
                waiting,
                cache_use,
                (cache_hit, busy),
                [steps, preemptions, prefill, decode],
            )| {
                EngineUse {
                    batch,
                    waiting,
                    cache_use,
                    cache_hit,
                    busy,
                    steps,
                    preemptions,
                    prefill_tokens: prefill,
                    decode_tokens: decode,
                }
            },
        )
}

fn series() -> impl Strategy<Value = Series> {
    let bucket = (
        any::<[u64; 3]>(),
        real(),
        real(),
        option::of(real()),
        option::of(real()),
    )
        .prop_map(
            |([offered, completed, unserved], output_tokens, concurrent, running, ttft)| Bucket {
                offered,
                completed,
                unserved,
                output_tokens: Some(output_tokens),
                concurrent,
                running,
                waiting: running,
                cache_use: ttft,
                ttft_p50: ttft,
                ttft_p95: running,
            },
        );
    (any::<u64>(), any::<u64>(), vec(bucket, 0..3)).prop_map(|(start, width, buckets)| Series {
        start: Nanoseconds(start),
        width: Nanoseconds(width),
        buckets,
    })
}

fn spent() -> impl Strategy<Value = Spent> {
    let money = (-1_000_000_000_i64..1_000_000_000).prop_map(|micros| Money {
        micros,
        currency: "EUR".parse().unwrap(),
    });
    (
        option::of(real()),
        option::of(real()),
        option::of(money),
        any::<u64>(),
    )
        .prop_map(|(gpu_seconds, joules, money, tokens)| Spent {
            gpu_seconds,
            energy: joules.map(Joules::new),
            money,
            tokens,
        })
}

fn report() -> impl Strategy<Value = RunReport> {
    let origin = prop_oneof![
        Just(Origin::Simulated),
        (text(), option::of(text()))
            .prop_map(|(started, client)| Origin::Measured { started, client }),
    ];
    let throughput = || {
        (rate(), rate(), rate(), option::of(real())).prop_map(
            |(requests, input_tokens, output_tokens, concurrent)| Throughput {
                requests,
                input_tokens,
                output_tokens,
                concurrent,
            },
        )
    };
    let slope = || {
        (real(), real(), real()).prop_map(|(per_second, low, high)| Slope {
            per_second,
            low,
            high,
        })
    };
    let saturation =
        (slope(), slope(), any::<bool>()).prop_map(|(concurrent, ttft, saturated)| Saturation {
            concurrent,
            ttft,
            saturated,
        });
    let reason = (select(Outcome::ALL.to_vec()), text(), any::<u64>(), text()).prop_map(
        |(outcome, text, count, first)| Reason {
            outcome,
            text,
            count,
            first,
        },
    );
    let words = (text(), option::of(text()), vec(text(), 0..3), any::<u64>());
    let tokens = any::<[Option<u64>; 5]>().prop_map(|[a, b, c, d, chunks]| TokenCounts {
        requested_input: a,
        served_input: b,
        requested_output: c,
        served_output: d,
        chunks,
        uncounted: a.unwrap_or(7),
        unknown: b.unwrap_or(3),
    });
    (
        (words, origin, any::<[u64; 5]>(), attainment()),
        (
            throughput(),
            throughput(),
            vec(reason, 0..3),
            vec(group(), 0..3),
        ),
        (tokens, engine(), spent(), option::of(series())),
        (option::of(saturation), rate(), option::of(real())),
    )
        .prop_map(
            |(
                ((model, word, list, seed), origin, times, attainment),
                (whole, steady, reasons, groups),
                (tokens, engine, spent, series),
                (saturation, offered, mean),
            )| {
                let [a, b, c, d, e] = times.map(Nanoseconds);
                RunReport {
                    subject: Subject {
                        model: model.clone(),
                        engine: word.clone(),
                        gpus: Some(seed),
                        ..Subject::default()
                    },
                    origin,
                    repeat: Repeat {
                        version: model.clone(),
                        arguments: list.clone(),
                        seed,
                    },
                    traffic: RunTraffic {
                        words: model,
                        offered,
                        delivered: offered,
                        concurrent: Some(seed),
                        requests: seed,
                        input: mean,
                        output: mean,
                    },
                    span: Span {
                        first_due: a,
                        last_due: b,
                        end: c,
                        steady_from: d,
                        steady_to: e,
                    },
                    attainment,
                    whole,
                    steady,
                    reasons,
                    groups,
                    tokens,
                    engine,
                    spent,
                    series,
                    saturation,
                    limited_by: word,
                    notes: list,
                }
            },
        )
}

fn ladder() -> impl Strategy<Value = Ladder> {
    let rung = || {
        (
            text(),
            real(),
            any::<[Option<bool>; 2]>(),
            option::of(real()),
        )
            .prop_map(|(name, load, [kept, saturated], figure)| Rung {
                name: Some(name),
                load,
                delivered: figure,
                ttft: figure,
                tpot: None,
                end_to_end: figure,
                goodput: figure,
                output_tokens: None,
                concurrent: figure,
                unserved: load,
                kept,
                saturated,
            })
    };
    let knee = (real(), real(), real(), any::<u64>(), text()).prop_map(
        |(load, low, high, seeds, limited_by)| Knee {
            load,
            nominal: (seeds > 5).then_some(low),
            low,
            high,
            seeds,
            limited_by,
        },
    );
    (
        select(vec![LoadUnit::RequestsPerSecond, LoadUnit::Concurrent]),
        option::of(percentile()),
        vec(rung(), 0..5),
        option::of(real()),
        option::of(knee),
    )
        .prop_map(|(unit, at, mut rungs, expected, knee)| Ladder {
            unit,
            ttft_at: at,
            tpot_at: None,
            end_to_end_at: at,
            near: rungs.split_off(rungs.len() / 2),
            rungs,
            expected,
            knee,
        })
}

fn runs() -> impl Strategy<Value = RunSet> {
    (vec(report(), 0..2), option::of(ladder()))
        .prop_map(|(reports, ladder)| RunSet { reports, ladder })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn runs_come_back(runs in runs()) {
        let text = runs_to_json(&runs);
        prop_assert_eq!(runs_from_json(&text), Ok(runs));
    }

    #[test]
    fn runs_are_as_their_schema_says(runs in runs()) {
        let schema: Value = serde_json::from_str(&run_schema()).unwrap();
        let document: Value = serde_json::from_str(&runs_to_json(&runs)).unwrap();
        prop_assert_eq!(crate::schemas::fits(&document, &schema, &schema, ""), Ok(()));
    }
}

#[test]
fn forms_and_errors() {
    let text = runs_to_json(&RunSet::default());
    assert_eq!(
        text,
        "{\n  \"schema\": \"gpuwise.run/v1\",\n  \"result\": {\n    \"runs\": [],\n    \"ladder\": null\n  }\n}\n"
    );
    let check = |from: &str, to: &str, expected: &str| {
        let error = runs_from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check(
        "run/v1",
        "run/v2",
        "`schema` is \"gpuwise.run/v2\"; this program reads \"gpuwise.run/v1\" here",
    );
    check(
        "\"runs\": []",
        "\"runs\": [{}]",
        "`result.runs[0]`: missing field `subject`",
    );
    check("\"ladder\"", "\"stairs\"", "`result.stairs`: unknown field");
}
