//! Whether a GPU is too large: a watch and an audit say the same of the same use.

use super::{limits, said, steady};
use crate::audit::{WINDOW, busy, compute, memory, rules, with_market};
use gpuwise_domain::{
    telemetry::{GpuIdentity, Holder, Quantity as Q, ServingSample, Subject, Telemetry},
    usage::{
        ComputeMeasure, EngineUse,
        proposal::{Change, Verdict},
    },
};
use gpuwise_measure::{
    audit::judge,
    telemetry::{Facts, Sizing, State, findings},
};
use proptest::prelude::*;

const GIB: f64 = 1073741824.0;

/// What a workload showed on one device.
#[derive(Debug, Clone)]
struct Shown {
    gpu: &'static str,
    slice: Option<&'static str>,
    gib: f64,
    p95: f64,
    dram: Option<f64>,
    measure: ComputeMeasure,
    engine: bool,
    devices: u32,
}

/// What an audit would have instead.
fn audited(shown: &Shown) -> Option<String> {
    let mut usage = busy();
    usage.asked.gpu = Some(shown.gpu.into());
    usage.asked.slice = shown.slice.map(str::to_owned);
    usage.asked.devices = shown.devices;
    memory(&mut usage, shown.gib);
    compute(&mut usage, shown.p95);
    if let Some(compute) = &mut usage.compute {
        compute.measure = shown.measure;
    }
    usage.dram_p95 = shown.dram;
    usage.engine = shown.engine.then(|| EngineUse {
        model: Some("m".into()),
        ..EngineUse::default()
    });
    let said = with_market(|market| judge(&usage, WINDOW, &rules(), market));
    let proposal = said
        .proposal
        .filter(|_| said.verdict == Verdict::OverProvisioned)?;
    let smaller = matches!(
        proposal.change,
        Change::Slice { .. } | Change::OtherGpu { .. }
    );
    smaller.then_some(proposal.title)
}

/// What a watch would have instead.
fn watched(shown: &Shown) -> Option<String> {
    let subject = |index: u32| Subject {
        gpu: GpuIdentity {
            index: Some(index),
            product: Some(shown.gpu.into()),
            ..GpuIdentity::default()
        },
        instance: shown
            .slice
            .map(|profile| gpuwise_domain::telemetry::MigInstance {
                profile: Some(profile.into()),
                gpu_instance: Some(1),
                ..gpuwise_domain::telemetry::MigInstance::default()
            }),
        holder: Holder {
            namespace: Some("team".into()),
            pod: Some("model-0".into()),
            ..Holder::default()
        },
    };
    let quantity = match shown.measure {
        ComputeMeasure::SmActive => Q::SmActive,
        ComputeMeasure::EngineActive => Q::EngineActive,
        ComputeMeasure::Utilisation => Q::GpuUtil,
    };
    let mut values = vec![(quantity, shown.p95), (Q::MemoryUsed, shown.gib * GIB)];
    values.extend(shown.dram.map(|dram| (Q::DramActive, dram)));
    let mut state: State = steady(&subject(0), &values);
    for index in 1..shown.devices {
        state.take(&said(&subject(index), 1000.0, &values), 0.0);
    }
    if shown.engine {
        let engine = ServingSample {
            engine: "vllm".into(),
            replica: "10.0.0.1:8000 model-0".into(),
            ..ServingSample::default()
        };
        let spoken = Telemetry {
            serving: vec![engine],
            ..Telemetry::default()
        };
        state.take(&spoken, 1000.0);
    }
    let found = with_market(|market| {
        let rules = rules();
        let sizing = Sizing {
            rules: &rules,
            market,
        };
        findings(&state, &limits(), &Facts::default(), Some(&sizing))
    });
    let over = found
        .into_iter()
        .find(|one| one.class == "over_provisioned")?;
    let (_, what) = over.statement.split_once(" at the most: ")?;
    Some(what.trim_end_matches(" would suffice.").to_owned())
}

proptest! {
    #[test]
    fn a_watch_and_an_audit_agree(
        held in prop_oneof![
            Just(("NVIDIA A100-SXM4-80GB", None)),
            Just(("NVIDIA A100-SXM4-80GB", Some("3g.40gb"))),
            Just(("NVIDIA L40S", None)),
            Just(("NVIDIA H100 80GB HBM3", None)),
            Just(("NVIDIA H100 80GB HBM3", Some("4g.40gb"))),
            Just(("a GPU of tomorrow", None)),
        ],
        gib in 0.5_f64..75.0,
        p95 in 0.0_f64..1.0,
        dram in proptest::option::of(0.0_f64..1.0),
        measure in prop_oneof![
            Just(ComputeMeasure::SmActive),
            Just(ComputeMeasure::EngineActive),
            Just(ComputeMeasure::Utilisation),
        ],
        engine in proptest::bool::weighted(0.2),
        devices in prop_oneof![4 => Just(1_u32), 1 => Just(2)],
    ) {
        let shown = Shown { gpu: held.0, slice: held.1, gib, p95, dram, measure, engine, devices };
        prop_assert_eq!(watched(&shown), audited(&shown));
    }
}

/// Ten seconds are no idling: a holder is judged when it was seen for the whole window.
#[test]
fn idling_needs_its_window() {
    let nothing = [
        (Q::EngineActive, 0.0),
        (Q::MemoryUsed, 20.0 * GIB),
        (Q::MemoryTotal, 80.0 * GIB),
    ];
    let after = |seconds: u32| {
        let mut state = State::new(300.0);
        for at in (0..=seconds).step_by(5) {
            state.take(
                &said(&super::subject(), 1000.0 + f64::from(at), &nothing),
                0.0,
            );
        }
        super::found(&state)
    };
    assert_eq!(after(10), []);
    assert_eq!(after(250), []);
    assert_eq!(super::classes(&after(300)), ["idle_gpu"]);
}

/// Two pods on one time-sliced GPU: nothing is said of either, unless the GPU idles.
#[test]
fn who_of_two_pods_uses_a_gpu_is_not_told() {
    let pod = |name: &str| {
        let mut subject = super::subject();
        subject.holder.pod = Some(name.into());
        subject
    };
    let look = |sm: f64| {
        let values = [
            (Q::SmActive, sm),
            (Q::MemoryUsed, 6.0 * GIB),
            (Q::MemoryTotal, 80.0 * GIB),
        ];
        let mut state = steady(&pod("a"), &values);
        for step in 0..6 {
            state.take(
                &said(&pod("b"), 1000.0 + 12.0 * f64::from(step), &values),
                0.0,
            );
        }
        super::found(&state)
    };
    assert_eq!(look(0.05), []);
    assert_eq!(super::classes(&look(0.0)), ["idle_gpu", "idle_gpu"]);
}

#[test]
fn half_empty_is_the_right_size_where_nothing_smaller_is_to_be_had() {
    // The strangers' case: a third of an L40S, which has no slices, beside a T4 whose 15 GiB are too few
    // and an A100 of which three sevenths would be too slow and four hardly cheaper.
    let shown = Shown {
        gpu: "NVIDIA L40S",
        slice: None,
        gib: 20.0,
        p95: 0.3,
        dram: None,
        measure: ComputeMeasure::SmActive,
        engine: false,
        devices: 1,
    };
    assert_eq!((watched(&shown), audited(&shown)), (None, None));
    let small = Shown {
        gib: 6.0,
        p95: 0.05,
        ..shown
    };
    // A seventh of an A100 costs less than the T4 that would do as well.
    let seventh = Some("1g.10gb of A100 SXM4 80GB".to_owned());
    assert_eq!(
        (watched(&small), audited(&small)),
        (seventh.clone(), seventh)
    );
}
