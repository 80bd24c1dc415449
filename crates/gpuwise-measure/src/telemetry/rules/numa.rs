//! Processes on processors that are far from their GPU.

use super::evidence;
use gpuwise_domain::{
    profile::{
        figure::Scope,
        finding::{Finding, Gain},
    },
    telemetry::Topology,
};

/// Whether processors that a process may use (as ranges) lie outside those near its GPU.
///
/// Nothing is said where the table does not say which processors are near.
pub fn numa_mismatch(topology: &Topology, gpu: u32, cpus: &[(u32, u32)]) -> Option<Finding> {
    let near = &topology.gpu(gpu)?.cpus;
    if near.is_empty() || cpus.is_empty() {
        return None;
    }
    let all: u64 = cpus.iter().map(|range| length(*range)).sum();
    let inside: u64 = cpus
        .iter()
        .flat_map(|range| near.iter().map(|other| overlap(*range, *other)))
        .sum();
    let outside = all.saturating_sub(inside);
    // A process that may run everywhere is not bound to the wrong side; it is not bound.
    if outside == 0 {
        return None;
    }
    let share = outside as f64 / all as f64;
    let bound = inside == 0;
    let text: Vec<String> = near
        .iter()
        .map(|(from, to)| format!("{from}-{to}"))
        .collect();
    Some(Finding {
        class: "numa_mismatch".into(),
        scope: Scope {
            device: Some(i64::from(gpu)),
            part: Some(format!("GPU{gpu}")),
            ..Scope::default()
        },
        statement: if bound {
            format!("The process runs only on processors that are far from GPU{gpu}.")
        } else {
            format!(
                "The process may run on {outside} of {all} processors that are far from GPU{gpu}."
            )
        },
        evidence: vec![evidence("cpus_outside_affinity", share, "ratio", Some(0.0))],
        places: Vec::new(),
        gain: Gain::Unknown,
        advice: vec![
            format!("bind it: numactl --physcpubind={}", text.join(",")),
            "measure copies before and after; the gain is theirs alone".into(),
        ],
    })
}

fn length((from, to): (u32, u32)) -> u64 {
    u64::from(to.saturating_sub(from)) + 1
}

fn overlap(a: (u32, u32), b: (u32, u32)) -> u64 {
    let (from, to) = (a.0.max(b.0), a.1.min(b.1));
    if from <= to { length((from, to)) } else { 0 }
}
