//! GPUs that are idle, too large, or could be shared.

use super::{Look, evidence, gib, percent};
use gpuwise_domain::{
    gpu::MigProfile,
    profile::finding::{Finding, Gain},
    telemetry::Quantity,
};

/// Whether somebody has it: a holder is named, a process is on it, or memory is in use.
fn allocated(look: &Look<'_>) -> Option<String> {
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

/// The 95th percentile of use, and which quantity said it.
fn use_p95(look: &Look<'_>) -> Option<(f64, Quantity)> {
    let quantity = look.busy_quantity()?;
    Some((look.track(quantity)?.quantile(0.95)?, quantity))
}

/// A time as people say it.
fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{} h", gpuwise_units::significant(seconds / 3600.0, 2)),
    }
}

fn is_idle(look: &Look<'_>) -> Option<(f64, Quantity)> {
    let limit = look.limit("idle_engine")?;
    use_p95(look).filter(|(share, _)| *share < limit)
}

pub(super) fn idle(look: &Look<'_>) -> Option<Finding> {
    let (share, quantity) = is_idle(look)?;
    // A whole GPU that is divided is judged by its slices.
    if look.row.subject.instance.is_none() && look.around.instances > 0 {
        return None;
    }
    let by = allocated(look)?;
    let span = duration(look.track(quantity)?.span());
    let mut finding = look.finding(
        "idle_gpu",
        format!("Idle for {span}, though {by}."),
        Gain::Device {
            low: 1.0 - share,
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
        look.limit("idle_engine"),
    ));
    Some(finding)
}

pub(super) fn over(look: &Look<'_>) -> Option<Finding> {
    if is_idle(look).is_some() {
        return None;
    }
    let (sm_limit, memory_limit) = (look.limit("over_sm")?, look.limit("over_memory")?);
    // 203 says only that some kernel ran: nothing is concluded from it.
    let share = look.track(Quantity::SmActive)?.quantile(0.95)?;
    let (used, total) = look.peak_memory()?;
    allocated(look)?;
    if share >= sm_limit || used / total >= memory_limit {
        return None;
    }
    let needed = share.max(used / total);
    let mut finding = look.finding(
        "over_provisioned",
        format!(
            "At its busiest it fills {} of the multiprocessors and {} of {}.",
            percent(share),
            gib(used),
            gib(total)
        ),
        Gain::Device {
            low: 0.0,
            high: 1.0 - needed,
        },
        &["a smaller tier, a slice, or a second workload beside it; `gpuwise tier` says which"],
    );
    finding
        .evidence
        .push(evidence("sm_active_p95", share, "ratio", Some(sm_limit)));
    finding.evidence.push(evidence(
        "memory_used_max",
        used,
        "bytes",
        Some(memory_limit * total),
    ));
    Some(finding)
}

/// The smallest slice that holds what was needed.
pub(super) fn slice(look: &Look<'_>) -> Option<Finding> {
    let whole_already = look.row.subject.instance.is_some()
        || look.last(Quantity::MigMode) == Some(1.0)
        || look.around.instances > 0;
    if whole_already || is_idle(look).is_some() {
        return None;
    }
    let headroom = look.limit("slice_headroom")?;
    let facts = look.facts.device(look.row.subject.gpu.product.as_deref())?;
    let units = f64::from(facts.multiprocessors?);
    let share = look.track(Quantity::SmActive)?.quantile(0.95)?;
    let (used, _) = look.peak_memory()?;
    allocated(look)?;
    let fits = |profile: &&MigProfile| {
        share * units <= headroom * f64::from(profile.units)
            && used <= headroom * profile.memory.as_f64()
    };
    let smallest = facts
        .profiles
        .iter()
        .filter(|profile| !profile.profile.contains('+'))
        .filter(fits)
        .min_by_key(|profile| (profile.compute_slices, profile.memory_slices))?;
    let part = (f64::from(smallest.compute_slices)
        / f64::from(smallest.board_compute_slices.max(1)))
    .max(f64::from(smallest.memory_slices) / f64::from(smallest.board_memory_slices.max(1)));
    if part >= 1.0 {
        return None;
    }
    let mut finding = look.finding(
        "mig_candidate",
        format!(
            "{} of {} multiprocessors and {} fit the slice {}.",
            gpuwise_units::significant(share * units, 2),
            facts.multiprocessors.unwrap_or_default(),
            gib(used),
            smallest.profile
        ),
        Gain::Device {
            low: 0.0,
            high: 1.0 - part,
        },
        &[
            &format!(
                "ask for nvidia.com/mig-{} in place of a whole GPU",
                smallest.profile
            ),
            "bandwidth and L2 are divided too: compare latency before and after",
        ],
    );
    finding.evidence.push(evidence(
        "sm_active_p95",
        share,
        "ratio",
        Some(headroom * f64::from(smallest.units) / units),
    ));
    finding.evidence.push(evidence(
        "memory_used_max",
        used,
        "bytes",
        Some(headroom * smallest.memory.as_f64()),
    ));
    Some(finding)
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
        &["raise the batch, run several streams or processes side by side (MPS), or take a smaller GPU"],
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
