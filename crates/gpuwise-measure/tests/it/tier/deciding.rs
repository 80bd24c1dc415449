//! From a profile to a tier.

use gpuwise_domain::{
    profile::matmul::{MatmulPrecision, MatmulShape, Processor},
    tier::{Job, JobFigure, TierRules},
};
use gpuwise_measure::{
    learn::forest::{Forest, ForestSettings},
    tier::{
        engine::{Decider, Deciders, Refused, decide},
        learned::{Lesson, learn},
        rules::{figure, fire},
        scaling::{Tier, Unscaled, parts, scale},
    },
};
use gpuwise_operators::{Class, Functions, Silicon};
use gpuwise_read::tier::read_rules;
use gpuwise_units::Bytes;
use proptest::prelude::*;
use std::sync::LazyLock;

const DEFAULT_RULES: &str = include_str!("../../../../../catalogue/tier_rules.toml");
const GIB: u64 = 1 << 30;

pub(super) fn processor(generation: &str, peak: f64, bandwidth: f64) -> Processor {
    Processor {
        vendor: "NVIDIA".into(),
        generation: generation.into(),
        capability: Some((if generation == "Hopper" { 9 } else { 8 }, 0)),
        peak_bf16: Some(peak),
        peak_fp8: Some(2.0 * peak),
        bandwidth,
        units: Some(4),
        power: Some(700.0),
        host_link: Some(6.3e10),
    }
}

pub(super) fn silicon(name: &str, peak: f64, bandwidth: f64) -> Silicon {
    Silicon {
        name: name.into(),
        class: Class::Hbm,
        architecture: ("sm9x".into(), "sm90".into()),
        half: peak,
        fp8: 2.0 * peak,
        fp4: 0.0,
        int8: 0.0,
        bandwidth,
        units: 132.0,
        clock: 1.8e9,
        l2: 5e7,
        link: 4e11,
    }
}

/// Nothing is known of operators: times scale with peaks and bandwidths.
static NOTHING: LazyLock<Functions> = LazyLock::new(Functions::default);

fn tier(generation: &str, peak: f64, bandwidth: f64, gib: u64, gpus: u32, hourly: f64) -> Tier {
    Tier {
        name: format!("{generation} {gib} GiB"),
        processor: processor(generation, peak, bandwidth),
        silicon: None,
        memory: Some(Bytes::new(gib * GIB)),
        slice: false,
        gpus,
        link: Some(4e11),
        hourly: Some(hourly),
        offer: String::new(),
    }
}

fn now() -> Tier {
    tier("Hopper", 1e15, 3e12, 80, 1, 4.0)
}

/// The present one; a small and cheap one; a fast and dear one; a slice of the present one.
fn tiers() -> Vec<Tier> {
    let slice = Tier {
        slice: true,
        name: "slice".into(),
        ..tier("Hopper", 1.4e14, 3.75e11, 10, 1, 0.6)
    };
    vec![
        now(),
        tier("Ampere", 1e14, 1e12, 24, 1, 0.8),
        tier("Blackwell", 4e15, 8e12, 180, 1, 12.0),
        slice,
    ]
}

fn job() -> Job {
    Job {
        name: "one".into(),
        gpu: "Hopper".into(),
        gpus: 1,
        precision: Some(MatmulPrecision::Bf16),
        seconds: 1.0,
        compute: Some(0.5),
        memory: Some(0.3),
        peak_memory: Some(Bytes::new(60 * GIB)),
        ..Job::default()
    }
}

fn rules() -> TierRules {
    read_rules(DEFAULT_RULES).unwrap()
}

fn by(rules: &TierRules) -> Deciders<'_> {
    Deciders {
        rules,
        rules_first: true,
        functions: &NOTHING,
        forest: None,
        most_regret: 0.1,
    }
}

#[test]
fn each_part_scales_with_what_bounds_it() {
    let job = Job {
        seconds: 2.0,
        compute: Some(0.8),
        memory: Some(0.4),
        launch: Some(0.1),
        copies: Some(0.2),
        communication: Some(0.3),
        gpus: 2,
        ..job()
    };
    let from = Tier { gpus: 2, ..now() };
    let mut to = Tier {
        gpus: 4,
        link: Some(8e11),
        ..tier("Hopper", 2e15, 1.5e12, 80, 4, 9.0)
    };
    to.processor.host_link = Some(3.15e10);
    let parts = scale(&job, &from, &to, &rules().scaling, &NOTHING)
        .unwrap()
        .parts;
    for (what, is, wanted) in [
        // Half the work each, at twice the peak.
        ("compute", parts.compute, 0.2),
        // Half the work each, at half the bandwidth.
        ("memory", parts.memory, 0.4),
        ("launch", parts.launch, 0.1),
        // Twice the link; a ring of four moves 3/4 where one of two moves 1/2.
        ("communication", parts.communication, 0.225),
        // Half each over half the link.
        ("copies", parts.copies, 0.2),
        // What the stated parts leave is the host's.
        ("host", parts.host, 0.2),
    ] {
        assert!((is - wanted).abs() < 1e-12, "{what}: {is}");
    }
    let single = scale(
        &job,
        &from,
        &Tier { gpus: 1, ..to },
        &rules().scaling,
        &NOTHING,
    )
    .unwrap();
    assert_eq!(single.parts.communication, 0.0);
}

#[test]
fn flops_and_bytes_stand_in_for_parts() {
    let bare = Job {
        compute: None,
        memory: None,
        operations: Some(1e15),
        bytes: Some(0.0),
        host: Some(0.25),
        ..job()
    };
    let told = parts(&bare, &now().processor).unwrap();
    assert!((told.compute - 0.75).abs() < 1e-12 && told.memory == 0.0);
    for (job, error) in [
        (
            Job {
                operations: None,
                bytes: None,
                ..bare.clone()
            },
            Unscaled::Parts,
        ),
        (
            Job {
                compute: Some(0.9),
                host: Some(0.2),
                ..job()
            },
            Unscaled::Sum,
        ),
    ] {
        assert_eq!(parts(&job, &now().processor), Err(error));
    }
}

#[test]
fn every_rule_that_gpuwise_brings_fires_where_it_should_and_not_beside_it() {
    let rules = rules();
    let quiet = Job {
        host: Some(0.2),
        ..job()
    };
    assert!(fire(&rules, &quiet, &now()).is_none());
    let parts = |compute: f64, memory: f64, host: f64| Job {
        compute: Some(compute),
        memory: Some(memory),
        host: Some(host),
        ..job()
    };
    let small = |busy: f64, gib: u64| Job {
        busy: Some(busy),
        peak_memory: Some(Bytes::new(gib * GIB)),
        ..quiet.clone()
    };
    let launches = |launch: f64| Job {
        launch: Some(launch),
        ..parts(0.9 - launch, 0.05, 0.05)
    };
    let talk = |gpus: u32| Job {
        communication: Some(0.4),
        gpus,
        ..parts(0.4, 0.1, 0.1)
    };
    for (name, fires, does_not) in [
        ("slice candidate", small(0.3, 20), small(0.3, 50)),
        ("host bound", parts(0.2, 0.2, 0.6), parts(0.4, 0.2, 0.4)),
        ("launch bound", launches(0.6), launches(0.4)),
        ("communication bound", talk(4), talk(1)),
        (
            "memory-bandwidth bound",
            parts(0.1, 0.8, 0.1),
            parts(0.25, 0.7, 0.05),
        ),
        (
            "compute bound",
            parts(0.8, 0.1, 0.1),
            parts(0.55, 0.1, 0.35),
        ),
    ] {
        let fired = |job: &Job| fire(&rules, job, &now()).map(|fired| fired.rule.name.clone());
        assert_eq!(fired(&fires).as_deref(), Some(name));
        assert_ne!(fired(&does_not).as_deref(), Some(name), "beside {name}");
    }
    assert_eq!(figure(JobFigure::Busy, &job(), None, &now()), None);
}

#[test]
fn the_first_that_speaks_decides() {
    let rules = rules();
    let decided = |job: &Job, rules: &TierRules| {
        let decision = decide(job, &now(), &tiers(), &by(rules));
        decision
            .decided
            .map(|(decider, at)| (decider, decision.candidates[at].tier))
    };
    // Mixed: nothing applies, so scaled times decide; only the two with memory for 60 GiB fit.
    let none = TierRules {
        rules: Vec::new(),
        ..rules.clone()
    };
    // 0.5 s and 0.3 s there are 0.125 s and 0.1125 s on the third, with 0.2 s of the host: 0.4375 s at
    // three times the price is dearer.
    assert_eq!(decided(&job(), &none), Some((Decider::Physics, 0)));
    let small = Job {
        busy: Some(0.2),
        peak_memory: Some(Bytes::new(5 * GIB)),
        compute: Some(0.05),
        memory: Some(0.1),
        ..job()
    };
    assert_eq!(decided(&small, &rules), Some((Decider::Rule, 3)));
    // All but nothing is the host's: the cheapest an hour that fits.
    let waiting = Job {
        busy: None,
        peak_memory: Some(Bytes::new(15 * GIB)),
        ..small
    };
    assert_eq!(decided(&waiting, &rules), Some((Decider::Rule, 1)));
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    let rules = rules();
    let strict = Job {
        slo: Some(0.8),
        ..job()
    };
    let decision = decide(&strict, &now(), &tiers(), &by(&rules));
    let reason = |tier: usize| {
        let refused = decision.refused.iter().find(|(at, _)| *at == tier);
        refused.map(|(_, reason)| reason.clone())
    };
    assert!(matches!(reason(0), Some(Refused::Slow(_))));
    assert!(matches!(reason(1), Some(Refused::Memory { .. })));
    assert_eq!(reason(2), None);
    let mut others = tiers();
    others[2].processor.vendor = "Other".into();
    others[0].hourly = None;
    let decision = decide(&job(), &now(), &others, &by(&rules));
    assert_eq!(decision.decided, None);
    assert!(decision.refused.contains(&(0, Refused::Price)));
    assert!(
        decision
            .refused
            .iter()
            .any(|(at, why)| *at == 2 && matches!(why, Refused::Time(Unscaled::Vendor(..))))
    );
    // Without a stated peak, only what has as much memory as now can be said to fit.
    let unknown = Job {
        peak_memory: None,
        ..job()
    };
    let decision = decide(&unknown, &now(), &tiers(), &by(&rules));
    assert!(decision.refused.contains(&(1, Refused::UnknownMemory)));
}

/// The functions that gpuwise brings.
fn shipped() -> Functions {
    Functions::parse(include_str!("../../../../../catalogue/operators.csv")).unwrap()
}

#[test]
fn a_job_s_own_products_scale_as_operators_say() {
    let functions = shipped();
    let tier = |name: &str, peak: f64, bandwidth: f64| Tier {
        silicon: Some(silicon(name, peak, bandwidth)),
        ..tier("Hopper", peak, bandwidth, 80, 1, 4.0)
    };
    let here = tier("H100 SXM5 80GB", 989e12, 3.35e12);
    let there = tier("H200 SXM 141GB", 989e12, 4.8e12);
    let with = |shape: &[(u32, u32, u32)]| Job {
        matmuls: shape
            .iter()
            .map(|(m, n, k)| {
                (
                    MatmulShape {
                        m: *m,
                        n: *n,
                        k: *k,
                    },
                    10.0,
                )
            })
            .collect(),
        ..job()
    };
    let scaled = |job: &Job| scale(job, &here, &there, &rules().scaling, &functions).unwrap();
    // One token through a large matrix waits for the memory, which is 1.43 times as fast there; many
    // wait for the peak, which is the same.
    let read = scaled(&with(&[(1, 16384, 16384)])).carried.unwrap();
    assert!((0.65..0.85).contains(&read.compute.value), "{read:?}");
    let computed = scaled(&with(&[(8192, 8192, 8192)])).carried.unwrap();
    assert!(
        (0.9..1.15).contains(&computed.compute.value),
        "{computed:?}"
    );
    assert!(read.own && read.memory == read.compute);
    // Figures alone are known no better than scaled times are.
    let figures = scaled(&job());
    let own = scaled(&with(&[(1, 16384, 16384)]));
    assert!(!figures.carried.unwrap().own);
    assert!(figures.high / figures.low > own.high / own.low);
    // The same board takes the same time.
    let same = scale(&job(), &here, &here, &rules().scaling, &functions).unwrap();
    assert!((same.seconds - 1.0).abs() < 1e-9 && (same.high - same.low).abs() < 1e-9);
}

#[test]
fn a_tier_of_a_family_that_nobody_timed_has_no_place_in_the_ranking() {
    let functions = shipped();
    let rules = rules();
    let by = Deciders {
        functions: &functions,
        ..by(&rules)
    };
    let tier = |silicon: Silicon, generation: &str, hourly: f64| Tier {
        processor: processor(generation, silicon.half, silicon.bandwidth),
        name: silicon.name.clone(),
        silicon: Some(silicon),
        ..tier(generation, 1.0, 1.0, 80, 1, hourly)
    };
    let now = tier(silicon("H100 SXM5 80GB", 989e12, 3.35e12), "Hopper", 4.0);
    let twin = tier(silicon("H200 SXM 141GB", 989e12, 4.8e12), "Hopper", 4.2);
    let other = |hourly: f64| {
        let silicon = Silicon {
            class: Class::Gddr,
            architecture: ("sm8x".into(), "sm89".into()),
            units: 142.0,
            ..silicon("L40S", 362e12, 8.64e11)
        };
        tier(silicon, "Ada Lovelace", hourly)
    };
    // Dearer than both it may yet cost less than the cheapest; where it is the cheapest, both may; so cheap
    // or dear that ranges do not meet, nothing is open.
    for (hourly, open) in [(2.0, 1), (1.2, 2), (0.5, 0), (20.0, 0)] {
        let tiers = [now.clone(), twin.clone(), other(hourly)];
        let decision = decide(&job(), &now, &tiers, &by);
        assert_eq!(decision.undecided.len(), open, "{hourly}: {decision:?}");
        for candidate in &decision.candidates {
            assert_eq!(candidate.ranked, candidate.tier != 2);
            let (_, low, high) = candidate.seconds;
            assert!(candidate.ranked || high / low >= 2.99);
        }
    }
}

#[test]
fn scaled_times_that_are_sure_come_before_the_rules_that_gpuwise_brings() {
    let rules = rules();
    let small = Job {
        busy: Some(0.2),
        peak_memory: Some(Bytes::new(5 * GIB)),
        compute: Some(0.05),
        memory: Some(0.1),
        ..job()
    };
    let decided = |rules_first: bool, most_regret: f64| {
        let by = Deciders {
            rules_first,
            most_regret,
            ..by(&rules)
        };
        decide(&small, &now(), &tiers(), &by).decided.map(|d| d.0)
    };
    assert_eq!(decided(true, 10.0), Some(Decider::Rule));
    assert_eq!(decided(false, 10.0), Some(Decider::Physics));
    assert_eq!(decided(false, 0.0), Some(Decider::Rule));
}

/// Jobs measured on the small tier, where memory-bound ones took twice what was scaled.
fn lessons() -> Vec<(Job, f64)> {
    (0..60u32)
        .map(|at| {
            let memory = 0.1 + 0.8 * f64::from(at % 10) / 10.0;
            let job = Job {
                name: format!("job {at}"),
                compute: Some(0.9 - memory),
                memory: Some(memory),
                peak_memory: None,
                ..job()
            };
            let to = &tiers()[1];
            let scaled = scale(&job, &now(), to, &rules().scaling, &NOTHING)
                .unwrap()
                .seconds;
            let slower = if memory > 0.5 { 2.0 } else { 1.0 };
            (job, scaled * slower)
        })
        .collect()
}

fn learned() -> Forest {
    let (from, to) = (now(), tiers().remove(1));
    let lessons = lessons();
    let lessons: Vec<Lesson<'_>> = lessons
        .iter()
        .map(|(job, seconds)| Lesson {
            job,
            from: &from,
            to: &to,
            seconds: *seconds,
        })
        .collect();
    let (forest, rows) = learn(
        &lessons,
        (&rules().scaling, &NOTHING),
        &ForestSettings::default(),
        1,
    );
    assert_eq!(rows, 60);
    forest
}

#[test]
fn a_forest_corrects_scaled_times_and_says_why() {
    let (rules, forest) = (rules(), learned());
    let by = Deciders {
        rules: &rules,
        rules_first: true,
        functions: &NOTHING,
        forest: Some(&forest),
        most_regret: 0.5,
    };
    let small = |memory: f64| Job {
        compute: Some(0.9 - memory),
        memory: Some(memory),
        peak_memory: Some(Bytes::new(10 * GIB)),
        ..job()
    };
    let only = [tiers().remove(1)];
    let at = |memory: f64| decide(&small(memory), &now(), &only, &by);
    let ratio = |memory: f64| {
        let one = &at(memory).candidates[0];
        one.seconds.0 / one.scaled.seconds
    };
    assert!((1.6..2.2).contains(&ratio(0.74)), "{}", ratio(0.74));
    assert!((0.9..1.2).contains(&ratio(0.26)), "{}", ratio(0.26));
    let decision = at(0.74);
    assert_eq!(decision.decided.map(|(who, _)| who), Some(Decider::Forest));
    assert!(
        decision.forest.reasons[0].contains("slower"),
        "{:?}",
        decision.forest
    );
    // Another generation than it learned from: it abstains, and says what lies outside.
    let other = [tiers().remove(2)];
    let decision = decide(&small(0.74), &now(), &other, &by);
    assert!(decision.forest.candidate.is_err());
    assert_ne!(decision.decided.map(|(who, _)| who), Some(Decider::Forest));
}

#[test]
fn a_forest_that_expects_to_lose_too_much_abstains() {
    let (rules, mut forest) = (rules(), learned());
    forest.range = (-0.8, 0.8);
    let only = tiers().remove(1);
    let twin = Tier {
        hourly: Some(0.81),
        ..only.clone()
    };
    let decide_with = |most_regret: f64| {
        let by = Deciders {
            rules: &rules,
            rules_first: true,
            functions: &NOTHING,
            forest: Some(&forest),
            most_regret,
        };
        let job = Job {
            peak_memory: Some(Bytes::new(10 * GIB)),
            ..lessons().remove(3).0
        };
        decide(&job, &now(), &[only.clone(), twin.clone()], &by)
            .forest
            .candidate
    };
    assert!(decide_with(0.05).is_err());
    assert!(decide_with(0.9).is_ok());
}

proptest! {
    #[test]
    fn what_is_decided_fits_and_is_one_of_the_candidates(
        compute in 0.0..0.5f64,
        memory in 0.0..0.5f64,
        gib in 1u64..80,
        slo in 0.1..3.0f64,
        busy in 0.0..1.0f64,
    ) {
        let rules = rules();
        let job = Job {
            compute: Some(compute),
            memory: Some(memory),
            peak_memory: Some(Bytes::new(gib * GIB)),
            slo: Some(slo),
            busy: Some(busy),
            ..job()
        };
        let tiers = tiers();
        let decision = decide(&job, &now(), &tiers, &by(&rules));
        prop_assert_eq!(decision.candidates.len() + decision.refused.len(), tiers.len());
        prop_assert_eq!(decision.decided.is_some(), !decision.candidates.is_empty());
        for candidate in &decision.candidates {
            let tier = &tiers[candidate.tier];
            prop_assert!(candidate.scaled.low <= candidate.scaled.seconds);
            prop_assert!(candidate.scaled.seconds <= candidate.scaled.high);
            prop_assert!(candidate.miss <= 0.5);
            prop_assert!(tier.memory >= Some(Bytes::new(gib * GIB)) || tier.name == now().name);
        }
        // Nothing dearer than what runs but for an SLO that is broken there, which is said.
        if let Some((_, at)) = decision.decided {
            let says = decision.note.as_deref().is_some_and(|note| note.contains("is broken"));
            let runs = job.seconds * now().hourly.unwrap() / 3600.0;
            let dearer = decision.candidates[at].cost.0 > runs * (1.0 + 1e-9);
            prop_assert_eq!(dearer, says && slo < job.seconds);
        }
        prop_assert_eq!(decide(&job, &now(), &tiers, &by(&rules)), decision);
    }
}
