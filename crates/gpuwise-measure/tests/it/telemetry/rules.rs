//! Each rule: a case in which it must speak, and cases in which it must not.

use super::{classes, facts, found, steady, subject};
use gpuwise_domain::{
    profile::finding::Gain,
    telemetry::{
        Holder, MigInstance, Process, Quantity as Q, Subject, Thresholds, Topology, TopologyRow,
    },
};
use gpuwise_measure::telemetry::{DEFINITIONS, State, findings, numa_mismatch, weighed};

const GIB: f64 = 1073741824.0;

fn check(values: &[(Q, f64)], expected: &[&str]) {
    let state = steady(&subject(), values);
    let found = found(&state);
    assert_eq!(classes(&found), expected, "{values:?}");
    for finding in &found {
        assert!(
            !finding.evidence.is_empty() && !finding.advice.is_empty(),
            "{finding:?}"
        );
        assert!(
            DEFINITIONS.iter().any(|one| one.class == finding.class),
            "{finding:?}"
        );
    }
}

#[test]
fn clocks_held_down_count_only_under_load() {
    let busy = (Q::GpuUtil, 0.98);
    check(&[busy, (Q::ClockReasons, 64.0)], &["thermal_throttling"]);
    check(&[busy, (Q::ClockReasons, 4.0)], &["power_throttling"]);
    // Idle, application clocks, sync boost and display are no throttling: PROFILING's mask is 0xEC.
    check(&[busy, (Q::ClockReasons, f64::from(0x113))], &[]);
    // Idle GPUs of some drivers say the power cap.
    check(&[(Q::GpuUtil, 0.0), (Q::ClockReasons, 4.0)], &[]);
    // Without a figure of load nothing is said.
    check(&[(Q::ClockReasons, 64.0)], &[]);
    // The brake sets the hardware slowdown too: it is not heat.
    check(&[busy, (Q::ClockReasons, 136.0)], &["power_throttling"]);
    // 12 of 60 seconds by the counter; then 0.5.
    check(
        &[busy, (Q::ThermalViolation, 12.0)],
        &["thermal_throttling"],
    );
    check(&[busy, (Q::ThermalViolation, 0.5)], &[]);
    check(&[busy, (Q::PowerViolation, 12.0)], &["power_throttling"]);
}

#[test]
fn throttling_gains_at_most_what_the_clock_lost() {
    let state = steady(
        &subject(),
        &[
            (Q::GpuUtil, 1.0),
            (Q::ClockReasons, 64.0),
            (Q::SmClock, 1485.0),
            (Q::SmClockMax, 1980.0),
        ],
    );
    assert_eq!(
        found(&state)[0].gain,
        Gain::Time {
            low: 0.0,
            high: 0.25
        }
    );
}

#[test]
fn faults_are_told_apart_and_stand_first() {
    check(&[(Q::Xid, 79.0)], &["hardware_fault"]);
    check(&[(Q::Xid, 74.0)], &["hardware_fault"]);
    check(&[(Q::Xid, 31.0)], &["application_fault"]);
    check(&[(Q::Xid, 0.0)], &[]);
    check(
        &[
            (Q::EccUncorrected, 0.0),
            (Q::RowRemapPending, 0.0),
            (Q::EccCorrected, 5.0),
        ],
        &[],
    );
    check(&[(Q::RowRemapPending, 1.0)], &["memory_repair_pending"]);
    let state = steady(
        &subject(),
        &[(Q::DramActive, 0.9), (Q::EccUncorrected, 2.0)],
    );
    assert_eq!(found(&state)[0].class, "uncorrectable_memory_errors");
}

#[test]
fn links_are_judged_under_load() {
    let narrow = [(Q::PcieWidth, 8.0), (Q::PcieWidthMax, 16.0)];
    let slow = [
        (Q::PcieWidth, 16.0),
        (Q::PcieWidthMax, 16.0),
        (Q::PcieGeneration, 1.0),
        (Q::PcieGenerationMax, 5.0),
    ];
    let with = |values: &[(Q, f64)], load: f64| {
        let mut all = values.to_vec();
        all.push((Q::GpuUtil, load));
        all
    };
    check(&with(&narrow, 0.9), &["pcie_link"]);
    check(&with(&slow, 0.9), &["pcie_link"]);
    check(&with(&slow, 0.0), &[]);
    check(&with(&narrow[..1], 0.9), &[]);
    // 16 lanes of generation 5 carry 63 GB/s.
    let full = [(Q::PcieWidth, 16.0), (Q::PcieGeneration, 5.0)];
    let copying = |rate: f64| [full[0], full[1], (Q::PcieRx, rate), (Q::PcieTx, 1e9)];
    check(&copying(55e9), &["pcie_bound"]);
    check(&copying(30e9), &[]);
}

#[test]
fn what_limits_a_busy_gpu() {
    check(&[(Q::DramActive, 0.85)], &["dram_bound"]);
    check(&[(Q::DramActive, 0.7)], &[]);
    check(&[(Q::TensorActive, 0.9)], &["compute_bound"]);
    check(&[(Q::TensorActive, 0.5)], &[]);
    check(
        &[(Q::GpuUtil, 0.99), (Q::SmActive, 0.2)],
        &["busy_low_occupancy"],
    );
    check(
        &[
            (Q::GpuUtil, 0.99),
            (Q::SmActive, 0.9),
            (Q::SmOccupancy, 0.1),
        ],
        &["busy_low_occupancy"],
    );
    check(
        &[
            (Q::GpuUtil, 0.99),
            (Q::SmActive, 0.9),
            (Q::SmOccupancy, 0.6),
        ],
        &[],
    );
    // 203 alone says nothing of how full it was.
    check(&[(Q::GpuUtil, 0.99)], &[]);
}

#[test]
fn idle_and_oversized_gpus_must_be_held_by_somebody() {
    let memory = |used: f64| [(Q::MemoryUsed, used * GIB), (Q::MemoryTotal, 80.0 * GIB)];
    let [used, total] = memory(20.0);
    check(&[(Q::EngineActive, 0.0), used, total], &["idle_gpu"]);
    let [empty, _] = memory(0.5);
    check(&[(Q::EngineActive, 0.0), empty, total], &[]);
    check(&[(Q::EngineActive, 0.5), used, total], &[]);
    // 0.18 of 132 multiprocessors and 6 GiB: a seventh has 16, two sevenths 32, of which 80 % count.
    let [small, _] = memory(6.0);
    check(
        &[(Q::SmActive, 0.18), small, total],
        &["mig_candidate", "over_provisioned"],
    );
    check(&[(Q::SmActive, 0.7), small, total], &[]);
    // Some kernel ran in a fifth of the time: the multiprocessors were in use for no more.
    check(
        &[(Q::GpuUtil, 0.18), small, total],
        &["mig_candidate", "over_provisioned"],
    );
    check(&[(Q::SmActive, 0.18), small], &[]);
    let state = steady(&subject(), &[(Q::SmActive, 0.18), small, total]);
    let slice = found(&state)
        .into_iter()
        .find(|one| one.class == "mig_candidate")
        .unwrap();
    assert!(slice.statement.contains("2g.20gb"), "{}", slice.statement);
    // A divided GPU is no candidate: its slices are.
    check(&[(Q::SmActive, 0.18), small, total, (Q::MigMode, 1.0)], &[]);
}

#[test]
fn a_holder_or_a_process_makes_a_gpu_allocated() {
    let mut held = subject();
    held.holder.pod = Some("notebook-0".into());
    held.holder.namespace = Some("team-a".into());
    let found_held = found(&steady(&held, &[(Q::EngineActive, 0.0)]));
    assert_eq!(classes(&found_held), ["idle_gpu"]);
    assert!(
        found_held[0].statement.contains("team-a/notebook-0"),
        "{}",
        found_held[0].statement
    );
    let mut state = steady(&subject(), &[(Q::EngineActive, 0.0)]);
    assert_eq!(found(&state), []);
    let process = Subject {
        holder: Holder {
            process: Some(Process {
                pid: 7,
                name: "python".into(),
            }),
            ..Holder::default()
        },
        ..subject()
    };
    state.take(
        &super::said(&process, 1060.0, &[(Q::ProcessMemory, GIB)]),
        0.0,
    );
    assert_eq!(classes(&found(&state)), ["idle_gpu"]);
}

#[test]
fn without_a_threshold_or_enough_samples_nothing_is_said() {
    let values = [
        (Q::GpuUtil, 1.0),
        (Q::ClockReasons, 64.0),
        (Q::DramActive, 0.99),
        (Q::SmActive, 0.1),
    ];
    let state = steady(&subject(), &values);
    assert_eq!(findings(&state, &Thresholds::default(), &facts(), None), []);
    let mut once = State::new(300.0);
    once.take(&super::said(&subject(), 1.0, &values), 1.0);
    assert_eq!(found(&once), []);
}

#[test]
fn a_divided_gpu_is_the_sum_of_its_slices_or_cannot_be_told() {
    let slice = |id: u32, profile: &str| Subject {
        instance: Some(MigInstance {
            gpu_instance: Some(id),
            profile: Some(profile.into()),
            ..MigInstance::default()
        }),
        ..subject()
    };
    let mut state = steady(&subject(), &[(Q::MigMode, 1.0)]);
    let whole = state.rows()[0].clone();
    assert!(weighed(&state, &whole, Q::EngineActive, None).is_err());
    for at in [1000.0, 1012.0, 1024.0] {
        state.take(
            &super::said(&slice(1, "3g.40gb"), at, &[(Q::EngineActive, 1.0)]),
            0.0,
        );
        state.take(
            &super::said(&slice(9, "1g.10gb"), at, &[(Q::EngineActive, 0.5)]),
            0.0,
        );
    }
    let facts = facts();
    let known = facts.devices.values().next();
    // 60 and 16 of 132 multiprocessors.
    assert_eq!(
        weighed(&state, &whole, Q::EngineActive, known),
        Ok(60.0 / 132.0 + 8.0 / 132.0)
    );
    let why = weighed(&state, &whole, Q::TensorActive, known).unwrap_err();
    assert!(
        why.contains("3g.40gb #1") && why.contains("tensor_active"),
        "{why}"
    );
}

#[test]
fn processors_far_from_the_gpu() {
    let topology = Topology {
        columns: vec!["GPU0".into()],
        rows: vec![
            TopologyRow {
                name: "GPU0".into(),
                links: vec!["X".into()],
                cpus: vec![(0, 15), (64, 79)],
                numa: vec![0],
            },
            TopologyRow {
                name: "GPU1".into(),
                ..TopologyRow::default()
            },
        ],
    };
    assert_eq!(numa_mismatch(&topology, 0, &[(0, 7), (70, 75)]), None);
    assert_eq!(numa_mismatch(&topology, 1, &[(0, 7)]), None);
    assert_eq!(numa_mismatch(&topology, 0, &[]), None);
    let far = numa_mismatch(&topology, 0, &[(16, 31)]).unwrap();
    assert_eq!(far.evidence[0].value, 1.0);
    assert!(far.advice[0].contains("0-15,64-79"));
    // 16 of 32 processors are near.
    assert_eq!(
        numa_mismatch(&topology, 0, &[(0, 31)]).unwrap().evidence[0].value,
        0.5
    );
}
