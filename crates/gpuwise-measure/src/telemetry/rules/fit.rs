//! GPUs that are idle, too large, or could be shared.

use super::{Look, evidence, gib, is_amd, percent};
use crate::audit::{Choice, Fit, Need, fit};
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::Quantity,
};
use gpuwise_units::Bytes;

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
    let lasted = look.track(quantity)?.span();
    // Between two batches every GPU idles for a while.
    if lasted < look.limit("idle_seconds")? {
        return None;
    }
    let span = duration(lasted);
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

/// What the holder of a row showed in the window, as an audit would look at it, and whether a smaller
/// device suffices. Nothing where it is idle, nobody holds it, or too little is known.
fn smaller<'a>(look: &Look<'a>) -> Option<(Need, Choice<'a>)> {
    let sizing = look.sizing?;
    let subject = &look.row.subject;
    // A whole GPU that is divided is judged by its slices.
    let divided = look.last(Quantity::MigMode) == Some(1.0) || look.around.instances > 0;
    if is_idle(look).is_some() || subject.instance.is_none() && divided {
        return None;
    }
    allocated(look)?;
    let slice = match &subject.instance {
        Some(instance) => Some(instance.profile.as_deref()?),
        None => None,
    };
    let held = sizing.market.held(subject.gpu.product.as_deref()?, slice)?;
    let compute = [
        Quantity::SmActive,
        Quantity::EngineActive,
        Quantity::GpuUtil,
    ];
    let need = Need {
        peak: Bytes::from_f64(look.track(Quantity::MemoryUsed)?.max()?),
        compute_p95: compute
            .into_iter()
            .find_map(|quantity| look.track(quantity)?.quantile(0.95))?,
        dram_p95: look
            .track(Quantity::DramActive)
            .and_then(|track| track.quantile(0.95)),
        engine: look.around.engine,
        devices: look.around.of_holder,
    };
    match fit(&need, &held, sizing.market, sizing.rules) {
        Fit::Smaller(choice) => Some((need, choice)),
        Fit::None | Fit::Untold(_) => None,
    }
}

/// What was shown, and what of a smaller device that would be.
fn shown(finding: &mut Finding, look: &Look<'_>, need: &Need, choice: &Choice<'_>) {
    let Some(sizing) = look.sizing else { return };
    finding.evidence.push(evidence(
        "compute_p95",
        need.compute_p95,
        "ratio",
        Some(sizing.rules.compute_target / choice.scale),
    ));
    finding.evidence.push(evidence(
        "memory_used_max",
        need.peak.as_f64(),
        "bytes",
        Some(choice.held.memory.as_f64() / sizing.rules.memory_headroom),
    ));
}

pub(super) fn over(look: &Look<'_>) -> Option<Finding> {
    let (need, choice) = smaller(look)?;
    let span = duration(look.track(Quantity::MemoryUsed)?.span());
    let mut finding = look.finding(
        "over_provisioned",
        format!(
            "Over {span} it fills {} of its compute at the 95th percentile and {} at the most: {} would suffice.",
            percent(need.compute_p95),
            gib(need.peak.as_f64()),
            choice.title()
        ),
        Gain::Device {
            low: 0.0,
            high: 1.0 - choice.cost,
        },
        &["the same over days, with what it saves: `gpuwise audit`; or a second workload beside it"],
    );
    shown(&mut finding, look, &need, &choice);
    Some(finding)
}

/// What suffices is a slice of the same board.
pub(super) fn slice(look: &Look<'_>) -> Option<Finding> {
    let (need, choice) = smaller(look)?;
    let profile = &choice.held.slice?.profile;
    let mut finding = look.finding(
        "mig_candidate",
        format!(
            "{} of its compute and {} fit the slice {profile}.",
            percent(need.compute_p95),
            gib(need.peak.as_f64()),
        ),
        Gain::Device {
            low: 0.0,
            high: 1.0 - choice.held.share,
        },
        &[
            &format!("ask for nvidia.com/mig-{profile} in place of a whole GPU"),
            "bandwidth and L2 are divided too: compare latency before and after",
        ],
    );
    shown(&mut finding, look, &need, &choice);
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
