//! Telemetry: windows, findings that must and must not be said, triggers, drift.

// Tests may fail loudly, say what they skip, and compare numbers that are exact.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::unnecessary_wraps
)]

mod drift;
mod engines;
mod recorded;
mod rules;
mod sizes;
mod windows;

use crate::audit::{rules, with_market};
use gpuwise_domain::{
    profile::finding::Finding,
    telemetry::{
        GpuIdentity, Quantity, Reading, ReadingValue, ServingSample, Subject, Telemetry, Thresholds,
    },
};
use gpuwise_measure::telemetry::{DeviceFacts, Facts, Sizing, State, findings};
use gpuwise_read::{
    catalogue::read_mig_profiles,
    telemetry::{read_thresholds, read_xids},
};

const CATALOGUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalogue/");

fn catalogue(file: &str) -> String {
    std::fs::read_to_string(format!("{CATALOGUE}{file}")).unwrap()
}

fn limits() -> Thresholds {
    read_thresholds("telemetry.toml", &catalogue("telemetry.toml")).unwrap()
}

/// An H100 and its slices, as the catalogue has them.
fn facts() -> Facts {
    let profiles = read_mig_profiles("mig_profiles.csv", &catalogue("mig_profiles.csv"))
        .unwrap()
        .into_iter()
        .filter(|profile| profile.gpus.iter().any(|gpu| gpu == "H100 SXM5 80GB"))
        .collect();
    let mut facts = Facts {
        xids: read_xids("telemetry_xid.csv", &catalogue("telemetry_xid.csv")).unwrap(),
        ..Facts::default()
    };
    facts.devices.insert(
        "NVIDIA H100 80GB HBM3".into(),
        DeviceFacts {
            name: "H100 SXM5 80GB".into(),
            multiprocessors: Some(132),
            profiles,
        },
    );
    facts
}

fn subject() -> Subject {
    Subject::of(GpuIdentity {
        index: Some(0),
        uuid: Some("GPU-1".into()),
        product: Some("NVIDIA H100 80GB HBM3".into()),
        ..GpuIdentity::default()
    })
}

fn said(subject: &Subject, at: f64, values: &[(Quantity, f64)]) -> Telemetry {
    Telemetry {
        subjects: vec![subject.clone()],
        readings: values
            .iter()
            .map(|(quantity, value)| Reading {
                subject: 0,
                at: Some(at),
                quantity: *quantity,
                value: ReadingValue::Known(*value),
            })
            .collect(),
        ..Telemetry::default()
    }
}

/// A GPU that said the same six times in a minute, which is the window; counters are given as what they gain in that time.
fn steady(subject: &Subject, values: &[(Quantity, f64)]) -> State {
    let mut state = State::new(60.0);
    for step in 0..6 {
        let now: Vec<_> = values
            .iter()
            .map(|(quantity, value)| {
                let grows = quantity.course() == gpuwise_domain::telemetry::MetricType::Counter;
                let value = if grows {
                    value * f64::from(step) / 5.0
                } else {
                    *value
                };
                (*quantity, value)
            })
            .collect();
        state.take(&said(subject, 1000.0 + 12.0 * f64::from(step), &now), 0.0);
    }
    state
}

fn classes(found: &[Finding]) -> Vec<&str> {
    let mut names: Vec<&str> = found.iter().map(|finding| finding.class.as_str()).collect();
    names.sort_unstable();
    names
}

fn found(state: &State) -> Vec<Finding> {
    with_market(|market| {
        let sizing = Sizing {
            rules: &rules(),
            market,
        };
        findings(state, &limits(), &facts(), Some(&sizing))
    })
}

fn serving(state: &mut State, samples: &[ServingSample]) {
    state.take(
        &Telemetry {
            serving: samples.to_vec(),
            ..Telemetry::default()
        },
        0.0,
    );
}
