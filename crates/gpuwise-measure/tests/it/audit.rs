//! Verdicts over one workload, changed one thing at a time.

use gpuwise_domain::{
    catalogue::Catalogue,
    usage::{
        ComputeMeasure, ComputeUse, EngineUse, Holder, ResourceRequest, Usage, Window,
        proposal::{Change, Judgement, Verdict},
        rules::Rules,
    },
};
use gpuwise_measure::audit::{Market, busy_hours, idle_of, judge, totals};
use gpuwise_read::{
    catalogue::{read_gpus, read_mig_profiles},
    usage::read_audit_catalogue,
};
use gpuwise_units::{Bytes, HourlyPrice};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// From Friday, 2025-11-07 12:00 UTC, for two weeks.
pub(crate) const WINDOW: Window = Window {
    start: 1_762_516_800,
    end: 1_763_726_400,
};
const HOURS: usize = 336;
const GIB: f64 = 1024.0;

pub(crate) fn rules() -> Rules {
    let read = read_audit_catalogue(
        "audit.toml",
        include_str!("../../../../catalogue/audit.toml"),
    );
    Rules::of(&read.expect("the catalogue").thresholds).expect("all thresholds")
}

pub(crate) fn catalogue() -> Catalogue {
    let gpus = read_gpus("gpus.toml", include_str!("../../../../catalogue/gpus.toml"));
    let mig = read_mig_profiles(
        "mig.csv",
        include_str!("../../../../catalogue/mig_profiles.csv"),
    );
    Catalogue {
        gpus: gpus.expect("GPUs"),
        mig: mig.expect("profiles"),
        ..Catalogue::default()
    }
}

pub(crate) fn with_market<T>(run: impl FnOnce(&Market<'_>) -> T) -> T {
    let catalogue = catalogue();
    let names = ["A100 SXM4 80GB", "L40S", "T4"].map(str::to_owned);
    let prices: BTreeMap<String, HourlyPrice> = names
        .iter()
        .zip(["2", "1.2", "0.6"])
        .map(|(name, price)| (name.clone(), HourlyPrice::usd(price).expect("a price")))
        .collect();
    run(&Market::new(&catalogue, &names, &prices))
}

/// An A100 that is well used: nothing to say.
pub(crate) fn busy() -> Usage {
    let mut usage = Usage {
        holder: Holder {
            namespace: "team".into(),
            kind: "Deployment".into(),
            name: "model".into(),
        },
        tenant: "team".into(),
        asked: ResourceRequest {
            gpu: Some("NVIDIA A100-SXM4-80GB".into()),
            devices: 1,
            replicas: 1,
            cpus: Some(8.0),
            ..ResourceRequest::default()
        },
        hours: HOURS as f64,
        spanned_hours: HOURS as f64,
        device_hours: HOURS as f64,
        device_hours_seen: HOURS as f64,
        present: true,
        memory_peak: None,
        memory_average: None,
        memory_hourly: Vec::new(),
        memory_full_share: None,
        compute: None,
        compute_hourly: vec![0.8; HOURS],
        idle: None,
        idle_devices: 0,
        tensor_average: Some(0.3),
        dram_p95: Some(0.4),
        cpu_share: Some(0.4),
        throttled_share: Some(0.0),
        engine: None,
        missing: Vec::new(),
    };
    memory(&mut usage, 60.0);
    compute(&mut usage, 0.8);
    usage
}

pub(crate) fn memory(usage: &mut Usage, gib: f64) {
    usage.memory_hourly = vec![(gib * GIB) as f32; HOURS];
    usage.memory_peak = Some(Bytes::from_f64(gib * GIB * GIB * GIB));
    usage.memory_average = usage.memory_peak;
}

pub(crate) fn compute(usage: &mut Usage, p95: f64) {
    usage.compute_hourly = vec![p95 as f32; HOURS];
    usage.compute = Some(ComputeUse {
        measure: ComputeMeasure::SmActive,
        average: Some(p95),
        p95: Some(p95),
        p95_sum: Some(p95),
        of_hours: false,
    });
}

pub(crate) fn judged(change: impl FnOnce(&mut Usage)) -> Judgement {
    let mut usage = busy();
    change(&mut usage);
    with_market(|market| judge(&usage, WINDOW, &rules(), market))
}

#[track_caller]
fn check(change: impl FnOnce(&mut Usage), verdict: Verdict, proposal: &str) {
    let said = judged(change);
    let title = said
        .proposal
        .as_ref()
        .map_or("", |proposal| proposal.title.as_str());
    assert_eq!((said.verdict, title), (verdict, proposal), "{said:?}");
}

#[test]
fn what_is_well_used_is_left_alone() {
    check(|_| {}, Verdict::RightSized, "");
}

#[test]
fn nothing_done_is_idle() {
    check(
        |u| compute(u, 0.0),
        Verdict::Idle,
        "scale to 0, or delete it",
    );
    // One busy hour a day is not idle, whatever the average is.
    let hourly = |hour: usize| if hour % 24 == 9 { 0.9 } else { 0.0 };
    let said = judged(|u| u.compute_hourly = (0..HOURS).map(hourly).collect());
    assert_eq!(said.verdict, Verdict::PartTime, "{said:?}");
    // Without any sign of compute nothing is idle.
    let said = judged(|u| (u.compute, u.compute_hourly) = (None, vec![f32::NAN; HOURS]));
    assert_eq!(said.verdict, Verdict::Unknown, "{said:?}");
    // Somebody waits for it.
    let waits = |u: &mut Usage| {
        compute(u, 0.0);
        u.engine = Some(EngineUse {
            waiting: Some(0.5),
            ..EngineUse::default()
        });
    };
    assert_ne!(judged(waits).verdict, Verdict::Idle);
}

#[test]
fn forty_asked_and_six_used() {
    let small = |u: &mut Usage| {
        memory(u, 6.0);
        compute(u, 0.05);
        u.dram_p95 = Some(0.05);
    };
    check(small, Verdict::OverProvisioned, "1g.10gb of A100 SXM4 80GB");
    let said = judged(small);
    let proposal = said.proposal.expect("a slice");
    // Six sevenths of two dollars.
    assert_eq!(proposal.saving.hourly.expect("money").micros, 1_714_286);
    assert_eq!(proposal.risk.hours_short, Some(0));
    // One batch of 50 GiB needs what it needs: nothing smaller would have held it.
    let spike = |u: &mut Usage| {
        small(u);
        u.memory_peak = Some(Bytes::from_mib(50 * 1024));
    };
    check(spike, Verdict::RightSized, "");
    // Two GPUs together, and engines that take memory at the start: cannot be told from here.
    let two = |u: &mut Usage| {
        small(u);
        u.asked.devices = 2;
    };
    let said = judged(two);
    assert!(
        said.proposal.is_none() && said.notes.iter().any(|n| n.contains("several GPUs")),
        "{said:?}"
    );
    let engine = |u: &mut Usage| {
        small(u);
        u.engine = Some(EngineUse {
            cache_peak: Some(0.1),
            ..EngineUse::default()
        });
    };
    let said = judged(engine);
    assert!(
        said.proposal.is_none() && said.notes.iter().any(|n| n.contains("gpuwise plan")),
        "{said:?}"
    );
    // Bandwidth is a reason too.
    let streams = |u: &mut Usage| {
        small(u);
        u.dram_p95 = Some(0.6);
    };
    assert_ne!(
        judged(streams).proposal.map(|p| p.title),
        Some("1g.10gb of A100 SXM4 80GB".into())
    );
    // Memory that is not known: no slice is named.
    let unknown = |u: &mut Usage| {
        small(u);
        (u.memory_peak, u.memory_hourly) = (None, Vec::new());
    };
    assert_eq!(judged(unknown).verdict, Verdict::Unknown);
    // A GPU that the catalogue does not know.
    let strange = |u: &mut Usage| {
        small(u);
        u.asked.gpu = Some("Frobnicator 3000".into());
    };
    let said = judged(strange);
    assert!(
        said.verdict == Verdict::Unknown && said.notes.iter().any(|n| n.contains("Frobnicator")),
        "{said:?}"
    );
}

#[test]
fn hours_above_the_proposal_are_counted() {
    let said = judged(|u| {
        memory(u, 6.0);
        compute(u, 0.05);
        u.dram_p95 = Some(0.05);
        for hour in [3, 30, 300] {
            u.compute_hourly[hour] = 0.5;
        }
    });
    let risk = said.proposal.expect("a slice").risk;
    assert_eq!((risk.hours_short, risk.hours_seen), (Some(3), 336));
}

#[test]
fn starved_by_cpus() {
    let starved = |u: &mut Usage| {
        compute(u, 0.3);
        (u.cpu_share, u.throttled_share) = (Some(0.98), Some(0.5));
    };
    check(starved, Verdict::Starved, "16 CPUs in place of 8");
    let fast = |u: &mut Usage| (u.cpu_share, u.throttled_share) = (Some(0.98), Some(0.5));
    check(fast, Verdict::RightSized, "");
    let unknown = |u: &mut Usage| {
        starved(u);
        u.cpu_share = None;
    };
    assert_ne!(judged(unknown).verdict, Verdict::Starved);
}

#[test]
fn memory_at_its_end() {
    let said = judged(|u| memory(u, 79.5));
    assert_eq!(said.verdict, Verdict::UnderProvisioned, "{said:?}");
    assert_eq!(
        said.proposal.map(|p| p.change),
        Some(Change::MoreMemory { gpu: None })
    );
    let l40s = |u: &mut Usage| {
        u.asked.gpu = Some("NVIDIA L40S".into());
        memory(u, 44.5);
    };
    let said = judged(l40s);
    let gpu = Some("A100 SXM4 80GB".to_owned());
    assert_eq!(
        said.proposal.map(|p| p.change),
        Some(Change::MoreMemory { gpu })
    );
    // For an hour only.
    let once = |u: &mut Usage| {
        u.memory_hourly[7] = 81_500.0;
        u.memory_peak = Some(Bytes::from_mib(81_500));
    };
    check(once, Verdict::RightSized, "");
    let queues = |u: &mut Usage| {
        u.engine = Some(EngineUse {
            waiting: Some(20.0),
            cache_peak: Some(1.0),
            ..EngineUse::default()
        });
    };
    check(
        queues,
        Verdict::UnderProvisioned,
        "2 replicas in place of 1",
    );
}

#[test]
fn replicas_that_could_go() {
    let many = |sum: f64| {
        move |u: &mut Usage| {
            u.asked.replicas = 5;
            u.dram_p95 = Some(0.2);
            u.engine = Some(EngineUse {
                cache_peak: Some(0.1),
                ..EngineUse::default()
            });
            compute(u, sum / 5.0);
            if let Some(compute) = &mut u.compute {
                compute.p95_sum = Some(sum);
            }
        }
    };
    check(
        many(1.0),
        Verdict::OverProvisioned,
        "2 replicas in place of 5",
    );
    check(
        many(0.1),
        Verdict::OverProvisioned,
        "2 replicas in place of 5",
    );
    check(many(3.0), Verdict::RightSized, "");
    // What is left would have to read twice as much from memory as it can.
    let streams = |u: &mut Usage| {
        many(1.0)(u);
        u.dram_p95 = Some(0.7);
    };
    check(streams, Verdict::Unknown, "");
    // What a cache holds must fit into those that are left.
    let full = |u: &mut Usage| {
        many(1.0)(u);
        u.engine = Some(EngineUse {
            cache_peak: Some(0.7),
            ..EngineUse::default()
        });
    };
    check(full, Verdict::OverProvisioned, "4 replicas in place of 5");
    let job = |u: &mut Usage| {
        many(1.0)(u);
        u.holder.kind = "Job".into();
    };
    // A job keeps its workers, and what its engine needs is not known.
    check(job, Verdict::Unknown, "");
}

#[test]
fn seen_too_briefly_and_gone() {
    check(|u| u.hours = 9.0, Verdict::TooEarly, "");
    let gone = |u: &mut Usage| {
        compute(u, 0.0);
        u.present = false;
    };
    check(gone, Verdict::Idle, "");
}

/// Office hours, Monday to Friday from 9 to 17 UTC.
fn office(hour: usize) -> f32 {
    let at = WINDOW.start + hour.cast_signed() as i64 * 3600;
    let (weekday, clock) = ((at / 86_400 + 4) % 7, at / 3600 % 24);
    if (1..=5).contains(&weekday) && (9..17).contains(&clock) {
        0.9
    } else {
        0.0
    }
}

#[test]
fn a_notebook_that_sleeps_at_weekends() {
    let hourly: Vec<f32> = (0..HOURS).map(office).collect();
    let idle = idle_of(&hourly, WINDOW, &rules());
    // Two weeks less ten days of eight hours; two weekends of 48 hours.
    assert_eq!(
        (idle.hours, idle.in_stretches, idle.weekend),
        (256.0, 256.0, 96.0)
    );
    let (busy, surprises) = busy_hours(&hourly, WINDOW, &rules()).expect("two weeks");
    // Monday is the second day of the week.
    let wanted: Vec<u8> = (1..=5_u8)
        .flat_map(|day| (9..17).map(move |hour| day * 24 + hour))
        .collect();
    assert_eq!((busy, surprises), (wanted, 0));
    let said = judged(|u| u.compute_hourly = hourly);
    assert_eq!(said.verdict, Verdict::PartTime);
    let saving = said.proposal.expect("a schedule").saving;
    assert!(
        (saving.gpus - 256.0 / 336.0).abs() < 1e-9 && saving.gpus_low < saving.gpus,
        "{saving:?}"
    );
}

#[test]
fn hours_that_nobody_observed_are_kept_by_a_schedule_and_save_nothing() {
    // Scraping stops each night and at weekends: nothing says that it idles then.
    let hourly: Vec<f32> = (0..HOURS)
        .map(|hour| match office(hour) {
            busy if busy > 0.0 => busy,
            _ => f32::NAN,
        })
        .collect();
    let (kept, surprises) = busy_hours(&hourly, WINDOW, &rules()).expect("two weeks");
    assert_eq!((kept.len(), surprises), (168, 0));
    let said = judged(|u| u.compute_hourly = hourly);
    assert!(
        !matches!(
            said.proposal.map(|one| one.change),
            Some(Change::Schedule { .. })
        ),
        "nothing is known to be idle"
    );
}

proptest! {
    /// An hour of the week is left out of a schedule only where somebody saw it, and it was never busy; and what was
    /// not seen a week ago is no surprise.
    #[test]
    fn a_schedule_leaves_out_what_was_seen_idle_alone(
        hourly in proptest::collection::vec(
            prop_oneof![Just(0.0_f32), Just(0.0), Just(0.5), Just(f32::NAN), Just(f32::NAN)], 336..700)
    ) {
        let (kept, surprises) = busy_hours(&hourly, WINDOW, &rules()).expect("two weeks");
        let slot = |hour: usize| {
            let at = WINDOW.start + hour.cast_signed() as i64 * 3600;
            u8::try_from((at / 3600 + 96) % 168).expect("of a week")
        };
        let values = |of: u8, until: usize| -> Vec<f32> {
            let own = (0..until).filter(|hour| slot(*hour) == of);
            own.map(|hour| hourly[hour]).filter(|value| !value.is_nan()).collect()
        };
        for of in 0..168_u8 {
            let seen = values(of, hourly.len());
            let idle = !seen.is_empty() && seen.iter().all(|value| *value == 0.0);
            prop_assert_eq!(kept.contains(&of), !idle, "hour {} of the week", of);
        }
        let made = hourly.len() - 168;
        let missed = (made..hourly.len()).filter(|hour| {
            let before = values(slot(*hour), made);
            hourly[*hour] == 0.5 && !before.is_empty() && before.iter().all(|value| *value == 0.0)
        });
        prop_assert_eq!(surprises as usize, missed.count());
    }

    /// Nothing is proposed that costs more, frees more than is held, or did not fit what was seen.
    #[test]
    fn proposals_are_sound(
        gib in 0.0..79.0_f64, p95 in 0.0..1.0_f64, dram in 0.0..1.0_f64, replicas in 1..9_u32,
        devices in 1..9_u32, cpu in 0.0..1.0_f64, throttled in 0.0..1.0_f64, gpu in 0..3_usize,
        holes in proptest::collection::vec(0..HOURS, 0..40),
    ) {
        let said = with_market(|market| {
            let mut usage = busy();
            usage.asked.gpu = Some(["NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "Tesla T4"][gpu].into());
            (usage.asked.replicas, usage.asked.devices) = (replicas, devices);
            memory(&mut usage, gib);
            compute(&mut usage, p95);
            usage.dram_p95 = Some(dram);
            (usage.cpu_share, usage.throttled_share) = (Some(cpu), Some(throttled));
            for hole in holes {
                usage.compute_hourly[hole] = f32::NAN;
                usage.memory_hourly[hole] = f32::NAN;
            }
            let said = judge(&usage, WINDOW, &rules(), market);
            let (all, tenants) = totals(&[usage], std::slice::from_ref(&said), market);
            assert_eq!((all.workloads, tenants.len()), (1, 1));
            assert!(all.saved <= all.hourly && all.freed <= all.gpus + 1e-9, "{all:?}");
            said
        });
        if let Some(proposal) = &said.proposal {
            let saving = &proposal.saving;
            prop_assert!(saving.gpus_low <= saving.gpus && saving.gpus <= saving.gpus_high);
            if matches!(proposal.change, Change::Slice { .. } | Change::OtherGpu { .. }) {
                prop_assert_eq!(proposal.risk.hours_short, Some(0), "{:?}", said);
            }
        }
    }

    /// Idle hours are counted as one would by hand.
    #[test]
    fn stretches_by_hand(hourly in proptest::collection::vec(prop_oneof![Just(0.0_f32), Just(0.5), Just(f32::NAN)], 0..200)) {
        let found = idle_of(&hourly, WINDOW, &rules());
        let text: String = hourly.iter().map(|v| if *v < 0.01 { 'i' } else { 'b' }).collect();
        let runs: Vec<usize> = text.split('b').map(str::len).collect();
        prop_assert_eq!(found.hours as usize, runs.iter().sum::<usize>());
        prop_assert_eq!(found.in_stretches as usize, runs.iter().filter(|run| **run >= 4).sum::<usize>());
        prop_assert_eq!(found.stretches as usize, runs.iter().filter(|run| **run >= 4).count());
    }
}
