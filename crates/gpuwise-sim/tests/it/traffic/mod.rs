//! Traffic: its laws against their formulas, its sources against their words, and that nothing moves
//! from one version to the next.

mod arrivals;
mod changes;
mod golden;
mod lengths;
mod published;
mod samplers;
mod sources;

use gpuwise_domain::request::Request;
use gpuwise_units::{Nanoseconds, PerSecond, Seconds};
use std::fmt::Write as _;

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value)
}

fn time(seconds: f64) -> Nanoseconds {
    Nanoseconds::from_seconds(Seconds::new(seconds))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Squared coefficient of variation.
fn variation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    squares / values.len() as f64 / (mean * mean)
}

/// Gaps between due times in seconds, the first from 0.
fn gaps(requests: &[Request]) -> Vec<f64> {
    let due = requests.iter().map(|request| request.due.seconds().get());
    due.clone()
        .zip(std::iter::once(0.0).chain(due))
        .map(|(due, before)| due - before)
        .collect()
}

#[track_caller]
fn near(got: f64, expect: f64, within: f64) {
    assert!(
        (got - expect).abs() <= within * expect.abs().max(1e-12),
        "got {got}, expected {expect} within {within}"
    );
}

/// Requests in a line: `due_ms:input/output`, and what else is not as usual.
fn line(requests: impl Iterator<Item = Request>) -> String {
    let mut out = String::new();
    for request in requests {
        let due = request.due.0 as f64 / 1e6;
        let _ = write!(out, " {due}:{}/{}", request.input, request.output);
        for segment in request.prefix.iter().flatten() {
            let _ = write!(out, "+{}x{}", segment.content, segment.tokens);
        }
        for (name, value) in [
            ("s", request.session.map_or(0, i64::from)),
            ("t", i64::from(request.tenant)),
            ("p", i64::from(request.priority)),
            ("a", i64::from(request.adapter)),
        ] {
            if value != 0 {
                let _ = write!(out, "{name}{value}");
            }
        }
    }
    out.trim_start().to_owned()
}
