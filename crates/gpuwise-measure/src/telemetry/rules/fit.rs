//! GPUs that are idle, too large, too small, or could be shared: by the judge of an audit, over minutes in
//! place of days.

use super::{
    Look, evidence, gib, is_amd,
    judged::{Shown, compute},
    percent,
};
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::Quantity,
    usage::proposal::{Change, Proposal, Verdict},
};
use gpuwise_units::Bytes;

/// Whether somebody has it: a holder is named, a process is on it, or memory is in use.
pub(super) fn allocated(look: &Look<'_>) -> Option<String> {
    let holder = &look.row.subject.holder;
    if !holder.is_unknown() {
        return Some(format!("{holder} holds it"));
    }
    if look.around.processes > 0 {
        return Some(format!("{} processes are on it", look.around.processes));
    }
    let least = look.limit("allocated_memory")?;
    let (used, total) = look.peak_memory()?;
    (used / total >= least).then(|| format!("{} of its memory are taken", gib(used)))
}

/// A time as people say it.
fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{} h", gpuwise_units::significant(seconds / 3600.0, 2)),
    }
}

/// What is found of one holder, on its rows.
pub(super) fn findings(shown: &Shown<'_, '_>) -> Vec<Finding> {
    let said = &shown.said;
    let proposal = said.proposal.as_ref();
    let parts = proposal.map_or(&[][..], |proposal| proposal.change.parts());
    let idle = |rows: &mut dyn Iterator<Item = &&Look<'_>>| {
        rows.filter_map(|look| idle_gpu(look, shown)).collect()
    };
    match (said.verdict, parts) {
        (Verdict::Idle, _) => idle(&mut shown.looks.iter()),
        (Verdict::OverProvisioned, [Change::Gpus { .. }, ..]) => {
            let asleep = |look: &&&Look<'_>| shown.is_idle(look);
            idle(&mut shown.looks.iter().filter(asleep))
        }
        (Verdict::OverProvisioned, [Change::Slice { .. } | Change::OtherGpu { .. }]) => {
            let of_row = |look: &Look<'_>| {
                let proposal = proposal?;
                Some([
                    Some(over(look, shown, proposal)?),
                    slice(look, shown, proposal),
                ])
            };
            let found = shown.looks.iter().filter_map(|look| of_row(look));
            found.flatten().flatten().collect()
        }
        (Verdict::UnderProvisioned, [Change::MoreMemory { .. }]) => {
            let rows = shown.looks.iter();
            rows.filter_map(|look| memory_full(look, shown)).collect()
        }
        _ => Vec::new(),
    }
}

fn idle_gpu(look: &Look<'_>, shown: &Shown<'_, '_>) -> Option<Finding> {
    let (_, quantity) = compute(look)?;
    let track = look.track(quantity)?;
    let (share, span) = (track.quantile(0.95)?, duration(track.span()));
    let by = allocated(look)?;
    let mut finding = look.finding(
        "idle_gpu",
        format!("Idle for {span}, though {by}."),
        Gain::Device {
            low: (1.0 - share).max(0.0),
            high: 1.0,
        },
        &[
            "give it back, lend it to others, or scale the service to 0 when nothing comes",
            "a notebook that idles can be stopped by its hub after an hour",
        ],
    );
    finding.evidence.push(evidence(
        &format!("{}_p95", quantity.name()),
        share,
        "ratio",
        Some(shown.sizing.rules.idle_below),
    ));
    Some(finding)
}

/// What was shown.
fn seen(finding: &mut Finding, shown: &Shown<'_, '_>) {
    let usage = &shown.usage;
    for (name, value, unit) in [
        (
            "compute_p95",
            usage.compute.as_ref().and_then(|c| c.p95),
            "ratio",
        ),
        (
            "memory_used_max",
            usage.memory_peak.map(Bytes::as_f64),
            "bytes",
        ),
        ("dram_active_p95", usage.dram_p95, "ratio"),
    ] {
        let known = value.map(|value| evidence(name, value, unit, None));
        finding.evidence.extend(known);
    }
}

fn over(look: &Look<'_>, shown: &Shown<'_, '_>, proposal: &Proposal) -> Option<Finding> {
    let usage = &shown.usage;
    let span = duration(look.track(Quantity::MemoryUsed)?.span());
    let mut finding = look.finding(
        "over_provisioned",
        format!(
            "Over {span} it fills {} of its compute at the 95th percentile and {} at the most: {} would suffice.",
            percent(usage.compute.as_ref()?.p95?),
            gib(usage.memory_peak?.as_f64()),
            proposal.title
        ),
        Gain::Device {
            low: 0.0,
            high: shown.saved(proposal),
        },
        &["the same over days, with what it saves: `gpuwise audit`; or a second workload beside it"],
    );
    seen(&mut finding, shown);
    Some(finding)
}

/// What suffices is a slice of the same board.
fn slice(look: &Look<'_>, shown: &Shown<'_, '_>, proposal: &Proposal) -> Option<Finding> {
    let Change::Slice { gpu, profile } = &proposal.change else {
        return None;
    };
    let usage = &shown.usage;
    let held = usage.asked.gpu.as_deref()?;
    if !shown.sizing.market.same_gpu(held, gpu) {
        return None;
    }
    let mut finding = look.finding(
        "mig_candidate",
        format!(
            "{} of its compute and {} fit the slice {profile}.",
            percent(usage.compute.as_ref()?.p95?),
            gib(usage.memory_peak?.as_f64()),
        ),
        Gain::Device {
            low: 0.0,
            high: shown.saved(proposal),
        },
        &[
            &format!("ask for nvidia.com/mig-{profile} in place of a whole GPU"),
            "bandwidth and L2 are divided too: compare latency before and after",
        ],
    );
    seen(&mut finding, shown);
    Some(finding)
}

fn memory_full(look: &Look<'_>, shown: &Shown<'_, '_>) -> Option<Finding> {
    let (used, total) = look.peak_memory()?;
    let limit = shown.sizing.rules.memory_full;
    if used / total < limit {
        return None;
    }
    let mut finding = look.finding(
        "memory_full",
        format!("Its memory is full: {} of {}.", gib(used), gib(total)),
        Gain::Unknown,
        &[
            "less in memory (checkpointing, smaller batches, sharding), or a GPU with more",
            "allocators may hold memory that they do not need",
        ],
    );
    let share = used / total;
    finding.evidence.push(evidence(
        "memory_used_share_max",
        share,
        "ratio",
        Some(limit),
    ));
    Some(finding)
}

/// Whether a row is the smallest part that its board is divided into.
fn is_smallest(look: &Look<'_>) -> bool {
    let instance = look.row.subject.instance.as_ref();
    let profile = instance.and_then(|instance| instance.profile.as_deref());
    profile.is_some_and(|profile| profile.starts_with("1g.") || profile.starts_with("1c."))
}

/// Some kernel always runs, and fills little of the GPU.
pub(super) fn busy_low(look: &Look<'_>) -> Option<Finding> {
    let limit = look.limit("busy_low_util")?;
    let busy = look
        .mean(Quantity::GpuUtil)
        .filter(|share| *share > limit)?;
    let low = [
        (Quantity::SmActive, "low_sm"),
        (Quantity::SmOccupancy, "low_occupancy"),
    ]
    .into_iter()
    .find_map(|(quantity, name)| {
        let share = look.mean(quantity)?;
        let limit = look.limit(name)?;
        (share < limit).then_some((quantity, share, limit))
    });
    let (quantity, share, low_limit) = low?;
    let what = if quantity == Quantity::SmActive {
        "only a part of the multiprocessors work"
    } else {
        "few warps are resident"
    };
    // Warps that are missing may not be needed: only unused multiprocessors bound the gain.
    let gain = if quantity == Quantity::SmActive {
        Gain::Time {
            low: 0.0,
            high: 1.0 - share,
        }
    } else {
        Gain::Unknown
    };
    let mut finding = look.finding(
        "busy_low_occupancy",
        format!(
            "Reported {} busy, but {what} ({} {}).",
            percent(busy),
            quantity.name(),
            percent(share)
        ),
        gain,
        &[if is_smallest(look) {
            "raise the batch, or run several streams or processes side by side"
        } else if is_amd(look) {
            "raise the batch, run several streams or processes side by side, or take a smaller GPU or partition"
        } else {
            "raise the batch, run several streams or processes side by side (MPS), or take a smaller GPU"
        }],
    );
    finding
        .evidence
        .push(evidence("gpu_util_mean", busy, "ratio", Some(limit)));
    finding.evidence.push(evidence(
        &format!("{}_mean", quantity.name()),
        share,
        "ratio",
        Some(low_limit),
    ));
    Some(finding)
}
