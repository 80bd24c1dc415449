//! Figures by HolisticTraceAnalysis's own definitions, its approximations included: for those who
//! compare with what it said before. [`figures`](crate::figures) has the exact ones.
//!
//! Rules of HolisticTraceAnalysis 0.6.1 (`hta/common/trace.py`,
//! `hta/analyzers/breakdown_analysis.py`, `hta/analyzers/communication_analysis.py`).

mod kernels;

use gpuwise_domain::profile::hta::{HtaFigures, HtaRank, HtaRow, HtaTrace};
use std::collections::{BTreeMap, BTreeSet};

/// A kind of GPU events, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Computation,
    Communication,
    Memory,
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        let begins = |beginnings: &[&str]| beginnings.iter().any(|text| name.starts_with(text));
        if begins(&["nccl", "hip", "hccl"]) || name.contains("ncclKernel") {
            Self::Communication
        } else if begins(&["hipMemcpy", "Memcpy", "hipMemset", "Memset", "dma"]) {
            Self::Memory
        } else if ["Memcpy", "Memset", "dma", "Sync"]
            .iter()
            .any(|part| name.contains(part))
            || begins(&[
                "Stream Wait Event",
                "runFunction",
                "job_exe",
                "packet",
                "pe_exe",
                "cpum_exe_subgraph",
                "collective_subgraph_execution",
            ])
            || launches(name)
        {
            Self::Other
        } else {
            Self::Computation
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Computation => "COMPUTATION",
            Self::Communication => "COMMUNICATION",
            Self::Memory => "MEMORY",
            Self::Other => "OTHER",
        }
    }
}

/// `cuda`, anything, `LaunchKernel`, from the beginning on.
fn launches(name: &str) -> bool {
    name.strip_prefix("cuda")
        .is_some_and(|rest| rest.contains("LaunchKernel"))
}

/// A GPU event that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    start: f64,
    end: f64,
    name: u32,
    kind: Kind,
}

/// Figures of the ranks of one job, each with its number.
pub fn figures(ranks: &[(u32, &HtaTrace)]) -> HtaFigures {
    let steps: BTreeSet<&str> = ranks
        .iter()
        .flat_map(|(_, trace)| &trace.names)
        .map(String::as_str)
        .filter(|name| is_step(name))
        .collect();
    let mut found = HtaFigures::default();
    let mut types: BTreeMap<String, f64> = BTreeMap::new();
    for (rank, trace) in ranks {
        let events = gpu_events(trace, steps.len() >= 2);
        if let Some(figures) = of_rank(*rank, &events) {
            found.ranks.push(figures);
        }
        kernels::types(&events, &mut types);
        kernels::by_name(*rank, trace, &events, &mut found.kernels);
    }
    found.kernel_types = kernels::shares(types);
    found
        .kernels
        .sort_by(|a, b| (&a.kernel_type, &a.name, a.rank).cmp(&(&b.kernel_type, &b.name, b.rank)));
    found
}

fn is_step(name: &str) -> bool {
    name.strip_prefix("ProfilerStep#")
        .is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// Events on a stream. With two or more steps the last is left out: what the host did from its
/// start on, and GPU events that no call before it launched; one that several rows of the host
/// share a correlation with counts as often.
fn gpu_events(trace: &HtaTrace, several_steps: bool) -> Vec<Event> {
    let kinds: Vec<Kind> = trace.names.iter().map(|name| Kind::of(name)).collect();
    let event = |row: &HtaRow| Event {
        start: row.start_us,
        end: row.end_us,
        name: row.name,
        kind: kinds.get(row.name as usize).copied().unwrap_or(Kind::Other),
    };
    let on_stream = |row: &&HtaRow| row.stream != -1;
    if !several_steps {
        return trace.rows.iter().filter(on_stream).map(event).collect();
    }
    let name = |row: &HtaRow| {
        trace
            .names
            .get(row.name as usize)
            .map_or("", String::as_str)
    };
    let is_gpu = |row: &&HtaRow| {
        (row.stream >= 0 && row.correlation >= 0)
            || ["Event Sync", "Context Sync"].contains(&name(row))
    };
    let host = || trace.rows.iter().filter(|row| !is_gpu(row));
    let Some(first) = host().map(|row| row.start_us).reduce(f64::min) else {
        return trace.rows.iter().filter(on_stream).map(event).collect();
    };
    let last_step = host()
        .filter(|row| is_step(name(row)))
        .map(|row| row.start_us)
        .reduce(f64::max)
        .unwrap_or(first);
    let kept = || host().filter(|row| row.start_us < last_step);
    let mut launched: BTreeMap<i64, usize> = BTreeMap::new();
    for row in kept() {
        *launched.entry(row.correlation).or_default() += 1;
    }
    let gpu = trace.rows.iter().filter(is_gpu).flat_map(|row| {
        let times = launched.get(&row.correlation).copied().unwrap_or(0);
        std::iter::repeat_n(row, times)
    });
    gpu.chain(kept()).filter(on_stream).map(event).collect()
}

/// Ranges merged in order of their start; one that ends before it starts keeps its length.
pub(crate) fn merged(events: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut events: Vec<(f64, f64)> = events.collect();
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64)> = Vec::new();
    let mut latest = f64::NEG_INFINITY;
    for (start, end) in events {
        match out.last_mut() {
            Some(last) if start <= latest => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
        latest = latest.max(end);
    }
    out
}

fn length(ranges: &[(f64, f64)]) -> f64 {
    ranges.iter().map(|(start, end)| end - start).sum()
}

fn of_kind(events: &[Event], kind: Kind) -> Vec<(f64, f64)> {
    let of_kind = events.iter().filter(|event| event.kind == kind);
    merged(of_kind.map(|event| (event.start, event.end)))
}

fn of_rank(rank: u32, events: &[Event]) -> Option<HtaRank> {
    let all = merged(events.iter().map(|event| (event.start, event.end)));
    let kernel_us = all.last()?.1 - all.first()?.0;
    let idle_us = kernel_us - length(&all);
    let computation = of_kind(events, Kind::Computation);
    let communication = of_kind(events, Kind::Communication);
    let compute_us = length(&computation);
    let both = at_once(&[(1, &communication), (2, &computation)])
        .into_iter()
        .filter(|(running, _)| *running == 3)
        .map(|(_, time)| time)
        .sum::<f64>();
    Some(HtaRank {
        rank,
        idle_us,
        compute_us,
        non_compute_us: kernel_us - compute_us - idle_us,
        kernel_us,
        overlap_percent: (!communication.is_empty()).then(|| 100.0 * both / length(&communication)),
    })
}

/// Stretches between changes, each with the sum of the values of what runs in it.
pub(crate) fn at_once(lists: &[(i64, &[(f64, f64)])]) -> Vec<(i64, f64)> {
    let mut changes: Vec<(f64, i64)> = lists
        .iter()
        .flat_map(|(value, ranges)| {
            let ranges = ranges.iter();
            ranges.flat_map(move |(start, end)| [(*start, *value), (*end, -*value)])
        })
        .collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut running = 0;
    let nexts = changes.iter().skip(1).map(|(time, _)| *time);
    changes
        .iter()
        .zip(nexts)
        .map(|((time, change), next)| {
            running += change;
            (running, next - time)
        })
        .collect()
}
