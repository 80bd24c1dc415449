//! The cheapest of all that would do, against an oracle that tries every combination by the rules of
//! docs/guides/audit.md, with a table of its own (NVIDIA's data sheets and MIG user guide).

use crate::audit::{WINDOW, busy, catalogue, compute, judged, memory, rules};
use gpuwise_domain::usage::{
    EngineUse, Usage,
    proposal::{Change, Verdict},
};
use gpuwise_measure::audit::{Market, judge};
use gpuwise_units::{Bytes, HourlyPrice};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A device: board, profile, MiB, price an hour, TFLOP/s of its multiprocessors, GB/s.
type Row = (&'static str, &'static str, f64, f64, f64, f64);

const A100: (f64, f64) = (312.0 / 108.0, 2039.0 / 8.0);
const H100: (f64, f64) = (989.4 / 132.0, 3350.0 / 8.0);

/// Slices cost the larger of their shares of seven compute and eight memory slices.
const DEVICES: [Row; 16] = [
    ("A100 SXM4 80GB", "", 81920.0, 2.0, 312.0, 2039.0),
    (
        "A100 SXM4 80GB",
        "1g.10gb",
        9856.0,
        2.0 / 7.0,
        14.0 * A100.0,
        A100.1,
    ),
    (
        "A100 SXM4 80GB",
        "1g.20gb",
        19968.0,
        0.5,
        14.0 * A100.0,
        2.0 * A100.1,
    ),
    (
        "A100 SXM4 80GB",
        "2g.20gb",
        19968.0,
        4.0 / 7.0,
        28.0 * A100.0,
        2.0 * A100.1,
    ),
    (
        "A100 SXM4 80GB",
        "3g.40gb",
        40192.0,
        1.0,
        42.0 * A100.0,
        4.0 * A100.1,
    ),
    (
        "A100 SXM4 80GB",
        "4g.40gb",
        40192.0,
        8.0 / 7.0,
        56.0 * A100.0,
        4.0 * A100.1,
    ),
    (
        "A100 SXM4 80GB",
        "7g.80gb",
        80384.0,
        2.0,
        98.0 * A100.0,
        2039.0,
    ),
    ("H100 SXM5 80GB", "", 81559.0, 3.0, 989.4, 3350.0),
    (
        "H100 SXM5 80GB",
        "1g.10gb",
        9984.0,
        3.0 / 7.0,
        16.0 * H100.0,
        H100.1,
    ),
    (
        "H100 SXM5 80GB",
        "1g.20gb",
        20096.0,
        0.75,
        26.0 * H100.0,
        2.0 * H100.1,
    ),
    (
        "H100 SXM5 80GB",
        "2g.20gb",
        20096.0,
        6.0 / 7.0,
        32.0 * H100.0,
        2.0 * H100.1,
    ),
    (
        "H100 SXM5 80GB",
        "3g.40gb",
        40448.0,
        1.5,
        60.0 * H100.0,
        4.0 * H100.1,
    ),
    (
        "H100 SXM5 80GB",
        "4g.40gb",
        40448.0,
        12.0 / 7.0,
        64.0 * H100.0,
        4.0 * H100.1,
    ),
    ("H100 SXM5 80GB", "7g.80gb", 81152.0, 3.0, 989.4, 3350.0),
    ("L40S", "", 46068.0, 1.2, 362.0, 864.0),
    ("T4", "", 15360.0, 0.6, 65.0, 320.0),
];

/// What a workload showed.
#[derive(Debug, Clone)]
struct Seen {
    held: usize,
    replicas: u32,
    gpus: u32,
    idle_gpus: u32,
    deployment: bool,
    mib: f64,
    p95: f64,
    /// Sum of percentiles by that of as many of the busiest.
    even: f64,
    dram: Option<f64>,
    /// Share of the cache in use, GiB of weights where known.
    engine: Option<(f64, Option<f64>)>,
    /// Hours of each day asleep.
    asleep: usize,
}

/// What it costs at least an hour, of everything that would do; every combination is looked at.
fn cheapest(seen: &Seen) -> f64 {
    let (_, _, _, held_price, held_rate, held_bandwidth) = DEVICES[seen.held];
    let now = held_price * f64::from(seen.replicas * seen.gpus);
    let mut best = now;
    for replicas in 1..=seen.replicas {
        for gpus in 1..=seen.gpus {
            for (index, (_, _, mib, price, rate, bandwidth)) in DEVICES.into_iter().enumerate() {
                for sleeps in [false, true] {
                    let fewer = replicas < seen.replicas;
                    let other = index != seen.held;
                    let more = f64::from(seen.replicas) / f64::from(replicas);
                    let sum = seen.even * seen.p95 * f64::from(seen.replicas);
                    let slower = if other { held_rate / rate } else { 1.0 };
                    let need = match seen.engine {
                        None => Some(seen.mib),
                        Some((_, None)) => None,
                        Some((cache, Some(gib))) => Some(gib * 1024.0 + cache * more * seen.mib),
                    };
                    let asleep = seen.asleep as f64 / 24.0;
                    let wrong = [
                        gpus != seen.gpus
                            && (seen.idle_gpus == 0 || gpus != seen.gpus - seen.idle_gpus),
                        sleeps && asleep < 0.25,
                        fewer && (!seen.deployment || replicas < 2),
                        fewer && sum * slower / f64::from(replicas) > 0.7,
                        !fewer && other && seen.p95 * slower > 0.8,
                        other && gpus > 1,
                        other && need.is_none_or(|need| need * 1.1 > mib),
                        other
                            && seen.dram.unwrap_or(seen.p95) * more * held_bandwidth
                                > 0.8 * bandwidth,
                        fewer && !other && seen.dram.unwrap_or(0.0) * more > 0.8,
                        fewer && !other && seen.engine.is_some_and(|(cache, _)| cache * more > 0.9),
                    ];
                    if wrong.contains(&true) {
                        continue;
                    }
                    let hours = if sleeps { 1.0 - asleep } else { 1.0 };
                    best = f64::min(best, price * f64::from(replicas * gpus) * hours);
                }
            }
        }
    }
    // Less than a tenth is not proposed.
    if best <= 0.9 * now { best } else { now }
}

fn usage(seen: &Seen) -> Usage {
    let (board, profile, ..) = DEVICES[seen.held];
    let mut usage = busy();
    if !seen.deployment {
        usage.holder.kind = "Job".into();
    }
    usage.asked.gpu = Some(board.into());
    usage.asked.slice = (!profile.is_empty()).then(|| profile.into());
    (usage.asked.replicas, usage.asked.devices) = (seen.replicas, seen.gpus);
    usage.idle_devices = seen.idle_gpus;
    (usage.cpu_share, usage.throttled_share) = (None, None);
    memory(&mut usage, seen.mib / 1024.0);
    compute(&mut usage, seen.p95);
    if let Some(compute) = &mut usage.compute {
        compute.p95_sum = Some(seen.even * seen.p95 * f64::from(seen.replicas));
    }
    let awake = |hour: usize| {
        if hour % 24 < seen.asleep {
            0.0
        } else {
            seen.p95.max(0.02) as f32
        }
    };
    usage.compute_hourly = (0..336).map(awake).collect();
    usage.dram_p95 = seen.dram;
    usage.engine = seen.engine.map(|(cache, gib)| EngineUse {
        engine: "vllm".into(),
        cache_peak: Some(cache),
        weights: gib.map(|gib| Bytes::from_f64(gib * 1024.0 * 1024.0 * 1024.0)),
        ..EngineUse::default()
    });
    usage
}

fn with_all<T>(run: impl FnOnce(&Market<'_>) -> T) -> T {
    let catalogue = catalogue();
    let priced = DEVICES.iter().filter(|row| row.1.is_empty());
    let prices: BTreeMap<String, HourlyPrice> = priced
        .map(|row| {
            (
                row.0.to_owned(),
                HourlyPrice::usd(&row.3.to_string()).expect("a price"),
            )
        })
        .collect();
    let names: Vec<String> = prices.keys().cloned().collect();
    run(&Market::new(&catalogue, &names, &prices))
}

fn saved(seen: &Seen) -> f64 {
    let said = with_all(|market| judge(&usage(seen), WINDOW, &rules(), market));
    let saving = said.proposal.and_then(|proposal| proposal.saving.hourly);
    saving.map_or(0.0, gpuwise_units::Money::as_f64)
}

fn seen() -> impl Strategy<Value = Seen> {
    let load = (1.0..90.0_f64, 0.01..0.95_f64, 0.2..1.0_f64);
    let engine =
        proptest::option::weighted(0.3, (0.0..1.0_f64, proptest::option::of(1.0..40.0_f64)));
    (
        0..DEVICES.len(),
        (1..8_u32, 1..4_u32, 0..3_u32, any::<bool>()),
        load,
        proptest::option::of(0.0..1.0_f64),
        engine,
        prop_oneof![Just(0_usize), Just(5), Just(8), Just(16)],
    )
        .prop_map(
            |(
                held,
                (replicas, gpus, idle, deployment),
                (full, p95, even),
                dram,
                engine,
                asleep,
            )| Seen {
                held,
                replicas,
                gpus,
                idle_gpus: idle.min(gpus - 1),
                deployment,
                mib: DEVICES[held].2 * full / 100.0,
                p95,
                even,
                dram,
                engine,
                asleep,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_proposed_is_the_cheapest_that_would_do(seen in seen()) {
        let (_, _, _, price, ..) = DEVICES[seen.held];
        let now = price * f64::from(seen.replicas * seen.gpus);
        let (ours, oracle) = (saved(&seen), now - cheapest(&seen));
        prop_assert!((ours - oracle).abs() < 1e-4, "{} for {}", ours, oracle);
    }
}

/// Six H100s of which two suffice: not six A100s, which save less and free none.
#[test]
fn fewer_before_others() {
    let six = Seen {
        held: 7,
        replicas: 6,
        gpus: 1,
        idle_gpus: 0,
        deployment: true,
        mib: 70_000.0,
        p95: 0.2,
        even: 1.0,
        dram: Some(0.15),
        engine: None,
        asleep: 0,
    };
    let said = with_all(|market| judge(&usage(&six), WINDOW, &rules(), market));
    let proposal = said.proposal.expect("fewer");
    assert_eq!(proposal.change, Change::Replicas { from: 6, to: 2 });
    assert!((proposal.saving.gpus - 4.0).abs() < 1e-9, "{proposal:?}");
    assert!((saved(&six) - 12.0).abs() < 1e-6, "{proposal:?}");
    // A swap is told beside it, and frees no GPU.
    let swap = proposal
        .alternatives
        .iter()
        .find(|other| other.title.contains("A100"));
    let swap = swap.expect("six A100s would do too").saving;
    assert!(swap.gpus.abs() < 1e-9 && swap.hourly.is_some_and(|money| money.micros == 6_000_000));
    // Small ones may be fewer and smaller at once, and give back their nights.
    let small = Seen {
        mib: 6000.0,
        p95: 0.03,
        dram: Some(0.02),
        asleep: 8,
        ..six
    };
    let said = with_all(|market| judge(&usage(&small), WINDOW, &rules(), market));
    let proposal = said.proposal.expect("all three");
    let kinds: Vec<_> = proposal
        .change
        .parts()
        .iter()
        .map(|part| part.kind().name())
        .collect();
    assert_eq!(kinds, ["replicas", "slice", "schedule"], "{proposal:?}");
}

/// A serving replica that does next to nothing is not the right size: either its model is known and what
/// would do is named, or it is said why it cannot be.
#[test]
fn an_engine_that_hardly_works() {
    let little = |weights: Option<f64>| {
        move |u: &mut Usage| {
            memory(u, 72.0);
            compute(u, 0.05);
            u.dram_p95 = Some(0.05);
            u.engine = Some(EngineUse {
                engine: "vllm".into(),
                cache_peak: Some(0.05),
                weights: weights.map(|gib| Bytes::from_f64(gib * 1024.0 * 1024.0 * 1024.0)),
                ..EngineUse::default()
            });
        }
    };
    let said = judged(little(None));
    assert_eq!((said.verdict, &said.proposal), (Verdict::Unknown, &None));
    assert!(
        said.reason.contains("cache up to 5 % full"),
        "{}",
        said.reason
    );
    assert!(said.reason.contains("gpuwise plan"), "{}", said.reason);
    // 15 GiB of weights and 5 % of 72 GiB, with a tenth on top: 20.5 GiB.
    let said = judged(little(Some(15.0)));
    assert_eq!(said.verdict, Verdict::OverProvisioned, "{said:?}");
    assert_eq!(
        said.proposal.map(|p| p.title),
        Some("3g.40gb of A100 SXM4 80GB".into())
    );
    // Its cache is in use: it needs the memory.
    let full = |u: &mut Usage| {
        little(None)(u);
        if let Some(engine) = &mut u.engine {
            engine.cache_peak = Some(0.85);
        }
    };
    assert_eq!(judged(full).verdict, Verdict::RightSized);
}

#[test]
fn slices_of_untold_size_and_gpus_that_are_shared_abstain_by_name() {
    let untold = |u: &mut Usage| u.asked.slice_untold = true;
    let said = judged(untold);
    assert_eq!(said.verdict, Verdict::Unknown);
    assert!(said.reason.contains("MIG instance"), "{}", said.reason);
    let shared = |u: &mut Usage| u.asked.shared_by = 2;
    let said = judged(shared);
    assert_eq!((said.verdict, said.proposal), (Verdict::Unknown, None));
    assert!(said.reason.contains("1 other pod"), "{}", said.reason);
    // What does nothing does nothing, whoever is beside it; half a GPU of two dollars is its.
    let idle = |u: &mut Usage| {
        compute(u, 0.0);
        u.asked.shared_by = 2;
    };
    let said = judged(idle);
    let saving = said.proposal.expect("nothing is done").saving;
    assert_eq!((said.verdict, saving.gpus), (Verdict::Idle, 0.5));
    assert_eq!(saving.hourly.map(|money| money.micros), Some(1_000_000));
    // From a seventh to all of an A100.
    let slice = |u: &mut Usage| {
        compute(u, 0.0);
        u.asked.slice_untold = true;
    };
    let saving = judged(slice).proposal.expect("nothing is done").saving;
    assert!((saving.gpus - 1.0 / 7.0).abs() < 1e-9 && (saving.gpus_high - 1.0).abs() < 1e-9);
}

#[test]
fn gpus_that_never_work_beside_others_that_do() {
    let half = |u: &mut Usage| (u.asked.devices, u.idle_devices) = (4, 2);
    let said = judged(half);
    let proposal = said.proposal.expect("two of four");
    assert_eq!(proposal.change, Change::Gpus { from: 4, to: 2 });
    assert_eq!(
        proposal.saving.hourly.map(|money| money.micros),
        Some(4_000_000)
    );
}
