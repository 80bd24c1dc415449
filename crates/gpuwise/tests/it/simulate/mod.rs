//! Saved deployments under traffic: `simulate`, `validate`, `predict --simulate`.
#![allow(
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::cast_lossless,
    clippy::similar_names,
    clippy::cloned_ref_to_slice_refs,
    reason = "tests compare figures that are exact, and write small tables"
)]

mod compared;
mod laws;
mod planned;
mod predicted;
mod refused;
mod runs;
mod traces;
mod validated;

use crate::support::{Place, Ran};
use gpuwise_domain::run::{Outcomes, RunReport, RunSet};
use std::{fs, sync::OnceLock};

/// A folder with a saved deployment, `d.json`: one replica that sustains about 8 requests/s.
pub(crate) fn place() -> Place {
    let place = Place::new();
    place.write("d.json", deployment());
    place
}

/// The deployment that `plan` saves, made once.
pub(crate) fn deployment() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let place = Place::new();
        let planned = place.run(&[
            "plan",
            "llama-3.1-8b",
            "--gpu",
            "L40S",
            "--rate",
            "4",
            "--isl",
            "constant:1000",
            "--osl",
            "constant:200",
            "--slo",
            "ttft=p95:1s,tpot=p95:50ms",
            "--save",
            "d.json",
        ]);
        assert_eq!(planned.code, 0, "{planned:?}");
        fs::read_to_string(place.path("d.json")).expect("a deployment")
    })
}

pub(crate) fn simulate(place: &Place, flags: &[&str]) -> Ran {
    place.run(&[&["simulate", "d.json"], flags].concat())
}

/// The report of a run that ends with this exit code.
#[track_caller]
pub(crate) fn report(place: &Place, code: i32, flags: &[&str]) -> RunReport {
    let ran = simulate(place, &[flags, &["--format", "json"]].concat());
    assert_eq!(ran.code, code, "{flags:?}: {}{}", ran.err, ran.out);
    let RunSet {
        mut reports,
        ladder,
    } = gpuwise_wire::runs_from_json(&ran.out).expect("a document of runs");
    assert!(ladder.is_none() && reports.len() == 1, "{flags:?}");
    reports.remove(0)
}

/// That both are the same number.
#[track_caller]
pub(crate) fn same(found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(
        difference <= 1e-9 * expected.abs().max(1.0),
        "{found} is not {expected}"
    );
}

/// What became of the requests of a run.
pub(crate) fn outcomes(report: &RunReport) -> Outcomes {
    report.all().expect("a group of all").outcomes
}

/// A text with numbers and bars masked: what a screen is made of, whatever the catalogue and the
/// constants say.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<String> = line.split_whitespace().map(mask).collect();
        out += &words.join(" ");
        out.push('\n');
    }
    out
}

/// A text with lines that go on joined.
pub(crate) fn joined(text: &str) -> String {
    text.replace("\n  ", " ")
}

fn mask(word: &str) -> String {
    if word.chars().all(|c| "─▒░█▌▐".contains(c)) {
        return "─".into();
    }
    let mut out = String::new();
    for c in word.chars() {
        let c = match c {
            '0'..='9' | '.' | ',' if out.ends_with('#') => continue,
            '0'..='9' => '#',
            other => other,
        };
        out.push(c);
    }
    out
}
