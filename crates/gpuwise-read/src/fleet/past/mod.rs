//! What ran on a cluster, as people have it: Slurm's accounting, pods of Kubernetes with their lifetimes, and
//! files in the shape of published traces (Philly, Helios, Shockwave).
//!
//! The forms are described in `docs/reference/traces.md`.

mod documents;
mod table;
mod times;

use super::FleetError;
use gpuwise_domain::fleet::{Past, PastJob};

/// What is read of a job, with times in seconds since some beginning.
#[derive(Debug, Clone, Default)]
struct Ran {
    name: String,
    group: String,
    user: String,
    submitted: f64,
    started: Option<f64>,
    seconds: f64,
    gpus: u32,
    gpu: Option<String>,
    nodes: u32,
    cpu_milli: u64,
    memory_mib: u64,
}

/// GPUs of a job at most: what is beyond it is none.
const MOST: u32 = 65_536;
/// Seconds at most: a century.
const LONGEST: f64 = 3.2e9;

/// Whether a text begins as one of these forms does.
pub fn is_past(text: &str) -> bool {
    let first = text.trim_start();
    if first.starts_with('{') || first.starts_with('[') {
        return true;
    }
    table::columns(text).is_some()
}

/// Reads what ran. Jobs without GPUs, those that never ran and those that still run are left out, and counted.
///
/// # Errors
/// When it is none of the forms, or a field is not of its form; with its place.
pub fn read_past(file: &str, text: &str) -> Result<Past, FleetError> {
    let first = text.trim_start();
    let (ran, mut left_out) = if first.starts_with('{') || first.starts_with('[') {
        documents::read(file, text)?
    } else {
        table::read(file, text)?
    };
    let mut kept = Vec::new();
    for (place, one) in ran {
        let wrong = |problem: String| FleetError {
            file: file.into(),
            place: place.clone(),
            problem,
        };
        if one.gpus == 0 || one.seconds <= 0.0 {
            left_out += 1;
            continue;
        }
        if one.gpus > MOST {
            return Err(wrong(format!("{} GPUs; expected 1 to {MOST}", one.gpus)));
        }
        if !(0.0..=LONGEST).contains(&one.seconds) || !one.submitted.is_finite() {
            return Err(wrong(format!(
                "it ran for {} s; expected 0 to {LONGEST}",
                one.seconds
            )));
        }
        kept.push(one);
    }
    let origin = kept
        .iter()
        .map(|one| one.submitted)
        .fold(f64::INFINITY, f64::min);
    let nanos = |seconds: f64| gpuwise_units::Nanoseconds((seconds.max(0.0) * 1e9 + 0.5) as u64);
    let mut jobs: Vec<PastJob> = kept
        .into_iter()
        .map(|one| PastJob {
            submitted: nanos(one.submitted - origin),
            started: one.started.map(|started| nanos(started - origin)),
            duration: nanos(one.seconds),
            name: one.name,
            group: one.group,
            user: one.user,
            gpus: one.gpus,
            gpu: one.gpu,
            nodes: one.nodes,
            cpu_milli: one.cpu_milli,
            memory_mib: one.memory_mib,
        })
        .collect();
    jobs.sort_by(|a, b| (a.submitted, &a.name).cmp(&(b.submitted, &b.name)));
    Ok(Past { jobs, left_out })
}
