//! Deployments of every shape.

use gpuwise_domain::{
    deployment::{
        Adapters, Cost, Deployment, Figures, Headroom, MemoryPart, MemoryReport, PrefillPool,
        Quality, Rental, Saved, Settings,
    },
    derivation::{Derivation, Figure, Unit},
    engine::{EngineKind, Release},
    estimate::{Basis, Estimate},
    layout::Layout,
    limit::{Limit, LimitingFactor, ServingCause},
    offer::Terms,
    workload::{LengthDistribution, Lengths, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_units::{Bytes, HourlyPrice, Money, PerSecond, Percentile, Seconds, Tokens, Watts};
use proptest::{collection::vec, option, prelude::*, sample::select};

fn text() -> impl Strategy<Value = String> {
    "[ -~é–\n\"\\\\]{0,12}"
}

/// Every real but NaN, which is not equal to itself.
fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => any::<f64>().prop_filter("not a number", |real| !real.is_nan()),
        1 => select(vec![f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.1, 1e300, 5e-324]),
    ]
}

fn estimate() -> impl Strategy<Value = Estimate> {
    (real(), real(), real()).prop_map(|(value, low, high)| Estimate { value, low, high })
}

fn price() -> impl Strategy<Value = HourlyPrice> {
    (
        any::<i64>().prop_filter("has an opposite", |micros| *micros > i64::MIN),
        select(vec!["USD", "EUR"]),
    )
        .prop_map(|(micros, currency)| {
            HourlyPrice(Money {
                micros,
                currency: currency.parse().unwrap(),
            })
        })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    any::<u64>().prop_map(Bytes::new)
}

fn percentile() -> impl Strategy<Value = Option<Percentile>> {
    option::of((1u32..10_000).prop_map(|h| Percentile::from_percent(f64::from(h) / 100.0).unwrap()))
}

fn layout() -> impl Strategy<Value = Layout> {
    any::<[u32; 6]>().prop_map(
        |[
            replicas,
            tensor,
            pipeline,
            attention_data,
            expert,
            decode_context,
        ]| Layout {
            replicas,
            tensor,
            pipeline,
            attention_data,
            expert,
            decode_context,
        },
    )
}

fn derivation() -> impl Strategy<Value = Derivation> {
    let figure =
        (real(), select(Unit::ALL.to_vec())).prop_map(|(value, unit)| Figure { value, unit });
    let leaf =
        (text(), text(), text(), option::of(figure)).prop_map(|(name, value, source, figure)| {
            Derivation {
                figure,
                ..Derivation::fact(name, value, source)
            }
        });
    leaf.prop_recursive(4, 12, 3, |inner| {
        (text(), text(), text(), vec(inner, 0..3)).prop_map(|(name, value, formula, inputs)| {
            Derivation::computed(name, value, formula, inputs)
        })
    })
}

fn quality() -> impl Strategy<Value = Quality> {
    prop_oneof![
        Just(Quality::Published),
        Just(Quality::Unknown),
        (real(), text(), any::<bool>(), text(), any::<bool>()).prop_map(
            |(percent, evaluation, same_model, source, measured)| Quality::Loss {
                percent,
                evaluation,
                same_model,
                source,
                measured
            }
        ),
    ]
}

fn rental() -> impl Strategy<Value = Rental> {
    let terms = select(vec![Terms::OnDemand, Terms::Reserved, Terms::Spot]);
    (
        (text(), text(), text(), terms),
        any::<[u32; 3]>(),
        option::of(price()),
        (text(), text()),
    )
        .prop_map(
            |(
                (provider, instance, region, terms),
                [instances, gpu_thousandths, idle],
                price,
                (date, source),
            )| Rental {
                provider: provider.into(),
                instance,
                region,
                terms,
                instances,
                gpu_thousandths,
                idle,
                price,
                date,
                source,
            },
        )
}

fn parts() -> impl Strategy<Value = Vec<MemoryPart>> {
    let part = (text(), bytes(), any::<bool>(), text()).prop_map(
        |(name, bytes, outside_budget, formula)| MemoryPart {
            name,
            bytes,
            outside_budget,
            formula,
        },
    );
    vec(part, 0..3)
}

fn memory() -> impl Strategy<Value = MemoryReport> {
    (
        text(),
        (option::of(bytes()), bytes(), any::<bool>(), bytes()),
        parts(),
        parts(),
        (bytes(), bytes(), any::<u64>(), real()),
    )
        .prop_map(
            |(device, (reported, visible, visible_known, budget), weights, overheads, rest)| {
                let (cache, shortfall, cache_tokens, sequences) = rest;
                MemoryReport {
                    device,
                    reported,
                    visible,
                    visible_known,
                    budget,
                    weights,
                    overheads,
                    cache,
                    shortfall,
                    cache_tokens,
                    sequences,
                }
            },
        )
}

fn figures() -> impl Strategy<Value = Figures> {
    (
        (
            estimate(),
            percentile(),
            estimate(),
            percentile(),
            estimate(),
            percentile(),
        ),
        (estimate(), estimate(), real(), real()),
        (option::of(estimate()), option::of(estimate())),
    )
        .prop_map(
            |(
                (ttft, ttft_at, tpot, tpot_at, end_to_end, end_to_end_at),
                load,
                (power, joules_per_token),
            )| {
                let (requests, output_throughput, running, utilization) = load;
                Figures {
                    ttft,
                    ttft_at,
                    tpot,
                    tpot_at,
                    end_to_end,
                    end_to_end_at,
                    requests,
                    output_throughput,
                    running,
                    utilization,
                    power,
                    joules_per_token,
                }
            },
        )
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<[u64; 4]>(), real(), any::<bool>()).prop_map(
        |([batched_tokens, sequences, max_context, block], memory_fraction, eager)| Settings {
            batched_tokens,
            sequences,
            max_context,
            memory_fraction,
            block,
            eager,
        },
    )
}

fn basis() -> impl Strategy<Value = Basis> {
    select(vec![
        Basis::Exact,
        Basis::MeasuredNearby,
        Basis::Calibrated,
        Basis::Extrapolated,
    ])
}

pub(crate) fn deployment() -> impl Strategy<Value = Deployment> {
    let adapters = any::<[u32; 2]>().prop_map(|[count, rank]| Adapters { count, rank });
    let release = any::<[u32; 3]>().prop_map(|numbers| Release { numbers });
    let cost = (option::of(price()), option::of(real()), option::of(real())).prop_map(
        |(per_hour, per_million_input, per_million_output)| Cost {
            per_hour,
            per_million_input,
            per_million_output,
        },
    );
    let beyond = select(vec![
        LimitingFactor::Ttft,
        LimitingFactor::Tpot,
        LimitingFactor::EndToEnd,
        LimitingFactor::Sequences,
        LimitingFactor::Throughput,
    ]);
    let limit = (select(ServingCause::ALL.to_vec()), real())
        .prop_map(|(cause, share)| Limit { cause, share });
    let headroom =
        (real(), real(), option::of(beyond)).prop_map(|(rate, factor, limited_by)| Headroom {
            rate,
            factor,
            limited_by,
        });
    (
        (
            text(),
            select(EngineKind::ALL.to_vec()),
            option::of(release),
            text(),
            option::of(text()),
        ),
        (
            layout(),
            option::of(layout()),
            (any::<u32>(), option::of(real())),
            option::of(text()),
            bytes(),
            option::of(adapters),
        ),
        (text(), any::<bool>(), text(), quality(), settings()),
        (option::of(rental()), memory(), figures(), cost),
        (
            basis(),
            option::of(limit),
            headroom,
            vec(derivation(), 0..2),
        ),
    )
        .prop_map(|(what, how, formats, results, reasons)| {
            let (model, engine, release, gpu, slice) = what;
            let (layout, prefill, (draft_tokens, acceptance), draft_model, host_cache, adapters) =
                how;
            let (weights, weights_published, cache, quality, settings) = formats;
            let (rental, memory, figures, cost) = results;
            let (basis, bottleneck, headroom, derivations) = reasons;
            Deployment {
                model,
                engine,
                release,
                gpu,
                slice,
                layout,
                prefill: prefill.map(|layout| PrefillPool { layout }),
                weights,
                weights_published,
                cache,
                quality,
                settings,
                draft_tokens,
                acceptance,
                draft_model,
                host_cache,
                adapters,
                rental,
                memory,
                figures,
                cost,
                basis,
                bottleneck,
                headroom,
                derivations,
            }
        })
}

pub(crate) fn saved() -> impl Strategy<Value = Saved> {
    (deployment().boxed(), option::of(workload().boxed())).prop_map(|(deployment, workload)| {
        Saved {
            deployment,
            workload,
        }
    })
}

fn workload() -> impl Strategy<Value = Workload> {
    let traffic = prop_oneof![
        (real(), real()).prop_map(|(rate, burstiness)| Traffic::Open {
            rate: PerSecond::new(rate),
            burstiness
        }),
        any::<u64>().prop_map(|concurrency| Traffic::Closed { concurrency }),
    ];
    let length = || {
        (real(), real(), any::<u64>()).prop_map(|(mean, variation, longest)| LengthDistribution {
            mean,
            variation,
            longest: Tokens(longest),
        })
    };
    let target = || {
        option::of(
            (percentile(), real()).prop_map(|(percentile, seconds)| Target {
                percentile,
                at_most: Seconds::new(seconds),
            }),
        )
    };
    let slo = (target(), target(), target(), option::of(real())).prop_map(
        |(ttft, tpot, end_to_end, rate)| Slo {
            ttft,
            tpot,
            end_to_end,
            throughput: rate.map(PerSecond::new),
        },
    );
    let limits = (
        (vec(text(), 0..3), vec(text(), 0..3), vec(text(), 0..3)),
        (
            option::of(price()),
            option::of(real()),
            any::<u32>(),
            option::of(real()),
        ),
        vec((text(), any::<u32>()), 0..3),
    )
        .prop_map(
            |((gpus, providers, regions), (budget, power, spare_replicas, quality_loss), owned)| {
                Limits {
                    gpus,
                    providers,
                    regions,
                    budget,
                    power: power.map(Watts::new),
                    spare_replicas,
                    quality_loss,
                    owned,
                }
            },
        );
    (traffic, length(), length(), real(), slo, limits).prop_map(
        |(traffic, input, output, prefix_hit, slo, limits)| Workload {
            traffic,
            lengths: Lengths { input, output },
            prefix_hit,
            slo,
            limits,
        },
    )
}
