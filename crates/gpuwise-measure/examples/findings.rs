//! Prints what is found in traces of one run as JSON: `findings FILE…`, one file a rank.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout
)]

use gpuwise_domain::profile::finding::{Finding, Gain};
use gpuwise_measure::{
    figures::{self, Classifier, Input, Settings},
    findings::{self, Thresholds},
};
use gpuwise_read::kineto::{self, Limits, Vocabulary};
use serde_json::{Value, json};
use std::{collections::BTreeMap, error::Error, fs::File};

fn main() -> Result<(), Box<dyn Error>> {
    let kernels = include_str!("../../../catalogue/kernels.toml");
    let names = Classifier::new(&gpuwise_read::kernel_rules::read("kernels.toml", kernels)?);
    let limits = Thresholds::default();
    let peaks = BTreeMap::new();
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &peaks,
    };
    let (mut measured, mut signals) = (Vec::new(), Vec::new());
    for file in std::env::args().skip(1) {
        let timeline = kineto::read(
            kineto::open(File::open(&file)?),
            &Vocabulary::default(),
            &Limits::default(),
        )?;
        let one = figures::of_rank(
            &Input {
                file: &file,
                rank: None,
                timeline: &timeline,
            },
            &settings,
        );
        let steps = one.figures.steps.as_ref();
        signals.push(findings::signals(&timeline, steps, &settings, &limits));
        measured.push(one);
    }
    let profile = figures::of_profile(measured);
    let found = findings::of_profile(&signals, &profile, &limits);
    let found: Vec<Value> = found.iter().map(written).collect();
    println!("{}", json!({ "findings": found }));
    Ok(())
}

fn written(finding: &Finding) -> Value {
    let gain = match finding.gain {
        Gain::Time { low, high } => json!({ "kind": "time", "low": low, "high": high }),
        Gain::Device { low, high } => json!({ "kind": "device", "low": low, "high": high }),
        Gain::Memory { low, high } => json!({ "kind": "memory", "low": low, "high": high }),
        Gain::Safety => json!({ "kind": "safety" }),
        Gain::Unknown => json!({ "kind": "unknown" }),
    };
    let evidence: Vec<Value> = finding
        .evidence
        .iter()
        .map(|e| json!([e.figure, e.value, e.unit, e.threshold]))
        .collect();
    json!({
        "class": finding.class,
        "statement": finding.statement,
        "gain": gain,
        "evidence": evidence,
        "advice": finding.advice,
    })
}
