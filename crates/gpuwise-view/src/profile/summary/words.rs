//! A profile in sentences.

use crate::{
    figures::{bytes, number, percent},
    profile::duration,
};
use gpuwise_domain::profile::{
    figure::Summary,
    figures::{DeviceFigures, ProfileFigures, RankFigures, Stragglers},
    finding::{Finding, Gain},
};
use gpuwise_units::Bytes;

/// A share for people; `–` of nothing.
pub(super) fn share(part: i64, of: i64) -> String {
    percent(if of > 0 {
        part as f64 / of as f64
    } else {
        f64::NAN
    })
}

/// What limits, in a sentence or two.
pub(in crate::profile) fn answer(figures: &ProfileFigures, summary: &Summary) -> String {
    if let Some(first) = summary.findings.first() {
        return finding(first);
    }
    let ranks = &figures.ranks;
    let Some(rank) = ranks
        .iter()
        .filter(|rank| rank.whole.window.is_some())
        .max_by_key(|rank| rank.whole.span_ns())
    else {
        return "No GPU work is in the input: nothing can be said of a GPU.".into();
    };
    let whole = &rank.whole;
    let span = whole.span_ns();
    let of_rank = match (ranks.len(), rank.rank) {
        (1, _) => String::new(),
        (_, Some(number)) => format!(" (rank {number}, the longest)"),
        (_, None) => format!(" ({}, the longest)", rank.file),
    };
    let (what, ns) = largest(whole);
    format!(
        "Most of the time{of_rank} goes into {what}: {} of {}, {}.",
        duration(ns),
        duration(span),
        share(ns, span)
    )
}

/// The largest part of the span, in words.
fn largest(device: &DeviceFigures) -> (&'static str, i64) {
    let classes = &device.classes;
    let idle = &device.idle;
    let parts = [
        ("computation", classes.computation_ns),
        (
            "communication that hides under no computation",
            classes.exposed_communication_ns(),
        ),
        ("copies with nothing beside them", classes.exposed_memory_ns),
        ("waiting for data loading", idle.causes.loader_ns),
        (
            "waiting for the host, which waits for the device",
            idle.causes.synchronisation_ns,
        ),
        (
            "waiting for the host, which copies",
            idle.causes.copy_calls_ns,
        ),
        (
            "waiting for the host, which runs the framework",
            idle.causes.framework_ns,
        ),
        ("waiting within launch calls", idle.in_call_ns),
        ("gaps between launched kernels", idle.kernel_wait_ns),
        (
            "waiting for something between launch and start",
            idle.other_ns,
        ),
        (
            "idle time that no launch in the file explains",
            idle.unlinked_ns,
        ),
    ];
    parts
        .into_iter()
        .max_by_key(|(_, ns)| *ns)
        .unwrap_or(("nothing", 0))
}

/// What was profiled, line by line.
pub(super) fn facts(figures: &ProfileFigures, summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    if !summary.hardware.is_empty() {
        lines.push(format!("hardware: {}", summary.hardware.join(", ")));
    }
    if let [rank] = figures.ranks.as_slice() {
        of_rank(rank, &mut lines);
    }
    if let Some(stragglers) = &figures.stragglers {
        if !stragglers.collectives.is_empty() {
            let all = stragglers.collectives.len();
            let who = latest(stragglers);
            lines.push(format!("collectives: {all} laid beside one another; {who}"));
        }
        if stragglers.unmatched > 0 {
            lines.push(format!(
                "collectives that other ranks have no counterpart of: {}",
                stragglers.unmatched
            ));
        }
    }
    lines
}

/// Who came last, where one did.
fn latest(stragglers: &Stragglers) -> String {
    let most = stragglers.ranks.iter().map(|rank| rank.caused_ns).max();
    let ranks = stragglers.ranks.iter();
    let worst: Vec<_> = ranks.filter(|rank| Some(rank.caused_ns) == most).collect();
    match worst.as_slice() {
        [one] => format!(
            "rank {} was the straggler in {}, others waited {} for it",
            one.rank,
            one.last_count,
            duration(one.caused_ns)
        ),
        _ => "no rank is later than the others".to_owned(),
    }
}

fn of_rank(rank: &RankFigures, lines: &mut Vec<String>) {
    let whole = &rank.whole;
    if let Some(steps) = &rank.steps {
        let spread = steps.spread.map_or_else(String::new, |spread| {
            format!(", spread {}", percent(spread))
        });
        lines.push(format!(
            "steps: {}, median {}{spread}",
            steps.steps.len(),
            duration(steps.median_ns)
        ));
    }
    if let Some(sequence) = &rank.sequence {
        let inner = sequence.inner.map_or_else(String::new, |inner| {
            format!("; in it {} kernels {} times", inner.kernels, inner.count)
        });
        lines.push(format!(
            "sequence: {} kernels repeat {} times, median {}{inner}",
            sequence.kernels,
            sequence.count,
            duration(sequence.median_ns)
        ));
    }
    let classes = &whole.classes;
    if classes.communication_count > 0 {
        lines.push(format!(
            "communication: {} of the span, {} of it hidden under computation",
            share(classes.communication_ns, whole.span_ns()),
            share(classes.overlap_ns, classes.communication_ns)
        ));
    }
    let cores = &whole.tensor_cores;
    if whole.kernel_time_ns > 0 {
        lines.push(format!(
            "tensor cores: {} of kernel time uses them, {} could and does not, {} cannot be told",
            share(cores.used_ns, whole.kernel_time_ns),
            share(cores.unused_ns, whole.kernel_time_ns),
            share(cores.unknown_ns, whole.kernel_time_ns)
        ));
    }
    if whole.work_count > 0 {
        lines.push(format!(
            "small kernels: {} of {} are under 10 µs; launching costs {} of the span",
            whole.below_10us,
            whole.work_count,
            share(whole.launch_bound_ns(), whole.span_ns())
        ));
    }
    let known =
        |mean: Option<f64>| mean.map_or_else(|| "–".into(), |mean| format!("{} %", number(mean)));
    if whole.occupancy_percent.is_some() || whole.sm_efficiency_percent.is_some() {
        lines.push(format!(
            "occupancy: {} estimated, {} of multiprocessors have a block",
            known(whole.occupancy_percent.map(|weighted| weighted.mean)),
            known(whole.sm_efficiency_percent.map(|weighted| weighted.mean))
        ));
    }
    let flops = &rank.flops;
    let counted = share(flops.counted_kernel_ns, flops.kernel_ns);
    if let Some(hfu) = flops.hfu {
        let hfu = percent(hfu);
        lines.push(format!(
            "FLOPs: {hfu} of the dense peak (HFU), from operators with {counted} of the computing time"
        ));
    } else if let Some(least) = flops.at_least {
        let least = percent(least);
        lines.push(format!(
            "FLOPs: at least {least} of the dense peak: operators with {counted} of the computing time state their shapes"
        ));
    }
    if whole.idle.overhead_ns > 0 {
        lines.push(format!(
            "profiler's own overhead: {} of the idle time; idle {} of the span with it, {} without",
            duration(whole.idle.overhead_ns),
            share(whole.idle_ns, whole.span_ns()),
            share(whole.idle_ns - whole.idle.overhead_ns, whole.span_ns())
        ));
    }
    if let Some(path) = &rank.critical_path {
        let parts: Vec<String> = path
            .by_cause
            .iter()
            .take(4)
            .map(|(cause, ns)| format!("{} {}", cause.name(), share(*ns, whole.span_ns())))
            .collect();
        lines.push(format!("critical path: {}", parts.join(", ")));
    }
    for memory in &rank.memory {
        if let (Some(device), Some(peak)) = (memory.device, memory.peak_allocated) {
            lines.push(format!(
                "memory of device {device}: peak {}{}",
                bytes(Bytes::new(peak)),
                memory.peak_reserved.map_or_else(String::new, |reserved| {
                    format!(", reserved {}", bytes(Bytes::new(reserved)))
                })
            ));
        }
    }
}

/// Findings with what a fix would gain.
pub(super) fn findings(summary: &Summary) -> Vec<String> {
    summary
        .findings
        .iter()
        .map(|found| {
            let advice = found.advice.first();
            let advice = advice.map_or_else(String::new, |advice| format!(" {advice}"));
            let said = finding(found);
            let end = if advice.is_empty() || said.ends_with(['.', ':', '?']) {
                ""
            } else {
                "."
            };
            format!("{said}{end}{advice}")
        })
        .collect()
}

fn finding(finding: &Finding) -> String {
    let gain = match finding.gain {
        Gain::Time { low, high } => {
            format!(
                " A fix gains {} to {} of the time.",
                percent(low),
                percent(high)
            )
        }
        Gain::Memory { low, high } => format!(
            " A fix frees {} to {}.",
            bytes(Bytes::new(low)),
            bytes(Bytes::new(high))
        ),
        Gain::Device { low, high } => format!(
            " {} to {} of the device could serve others.",
            percent(low),
            percent(high)
        ),
        Gain::Safety | Gain::Unknown => String::new(),
    };
    let statement = finding.statement.trim_end();
    let end = if statement.ends_with(['.', ':', '?']) || gain.is_empty() {
        ""
    } else {
        "."
    };
    format!("{statement}{end}{gain}")
}
