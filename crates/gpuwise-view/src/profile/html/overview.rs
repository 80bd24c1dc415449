//! What stands first: the answer and the figures that people remember.

use super::tables::{self, share};
use crate::{
    figures::{MISSING, bytes, number, percent},
    profile::{Profile, duration, summary},
};
use gpuwise_domain::profile::figures::{DeviceFigures, RankFigures};
use gpuwise_units::Bytes;

/// What the page is called.
pub(super) fn title(profile: &Profile, against: Option<&Profile>) -> String {
    match against {
        Some(other) => format!("Profile of {} beside {}", profile.label, other.label),
        None => format!("Profile of {}", profile.label),
    }
}

/// The sentence that answers: what limits, or that nothing does.
pub(super) fn answer(profile: &Profile, against: Option<&Profile>) -> String {
    if let Some(other) = against
        && let (Some(now), Some(before)) = (pace(profile), pace(other))
        && now.1 == before.1
    {
        let what = if now.1 {
            "A step takes"
        } else {
            "The profiled time is"
        };
        let change = now.0 as f64 / before.0 as f64 - 1.0;
        let way = if change < 0.0 { "less" } else { "more" };
        return format!(
            "{what} {} where it took {}: {} {way}.",
            duration(now.0),
            duration(before.0),
            percent(change.abs())
        );
    }
    if let Some(finding) = profile.summary.findings.first() {
        let mut text = finding.statement.trim_end_matches('.').to_owned();
        text.push('.');
        return text;
    }
    summary::words::answer(profile.figures, profile.summary)
}

/// The median step where there are steps, else the profiled span; and which it is.
fn pace(profile: &Profile) -> Option<(i64, bool)> {
    let ranks = &profile.figures.ranks;
    let step = ranks
        .iter()
        .filter_map(|rank| rank.steps.as_ref())
        .map(|steps| steps.median_ns)
        .max();
    let span = ranks.iter().map(|rank| rank.whole.span_ns()).max();
    match step {
        Some(step) if step > 0 => Some((step, true)),
        _ => Some((span.filter(|span| *span > 0)?, false)),
    }
}

/// Busy time and span of all devices.
fn busy(profile: &Profile) -> Option<(i64, i64)> {
    let devices = || devices(profile).filter(|device| device.window.is_some());
    let span = devices().map(DeviceFigures::span_ns).max()?;
    let total: i64 = devices().map(DeviceFigures::span_ns).sum();
    let busy: i64 = devices().map(|device| device.busy_ns).sum();
    let mean = (busy as f64 / total.max(1) as f64 * span as f64) as i64;
    Some((mean, span))
}

/// All devices of all ranks.
pub(super) fn devices<'a>(profile: &'a Profile) -> impl Iterator<Item = &'a DeviceFigures> {
    profile.figures.ranks.iter().flat_map(|rank| &rank.devices)
}

/// The figures that people remember, and what the profile is of.
pub(super) fn head(profile: &Profile) -> String {
    let mut out = String::from("<dl class=\"figures\">\n");
    let mut add = |label: &str, value: &str, more: &str| {
        crate::html::headline_figure(&mut out, label, value, more);
    };
    for (label, value, more) in remembered(profile) {
        add(label, &value, &more);
    }
    out += "</dl>\n";
    out += &crate::html::facts(&question(profile));
    out
}

/// Least and most of a share over devices.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 {
        return String::new();
    }
    format!(
        "{} to {} over {} devices",
        percent(least),
        percent(most),
        values.len()
    )
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn remembered(profile: &Profile) -> Vec<(&'static str, String, String)> {
    let mut out = Vec::new();
    let all: Vec<&DeviceFigures> = devices(profile)
        .filter(|device| device.span_ns() > 0)
        .collect();
    let of = |part: &dyn Fn(&DeviceFigures) -> i64| -> Vec<f64> {
        all.iter()
            .map(|device| share(part(device), device.span_ns()))
            .collect()
    };
    if let Some((_, span)) = busy(profile) {
        let ranks = profile.figures.ranks.len();
        let more = if ranks > 1 {
            format!("{ranks} ranks")
        } else {
            String::new()
        };
        out.push(("profiled", duration(span), more));
        let values = of(&|device| device.busy_ns);
        out.push((
            "GPU busy",
            mean(&values).map_or(MISSING.into(), percent),
            spread(&values),
        ));
    }
    let communication = of(&|device| device.classes.exposed_communication_ns());
    if all
        .iter()
        .any(|device| device.classes.communication_count > 0)
    {
        let text = mean(&communication).map_or(MISSING.into(), percent);
        out.push(("communication not hidden", text, spread(&communication)));
    }
    let loader = of(&|device| device.idle.causes.loader_ns);
    if loader.iter().any(|share| *share > 0.0) {
        let text = mean(&loader).map_or(MISSING.into(), percent);
        out.push(("idle for data loading", text, spread(&loader)));
    }
    let steps = profile
        .figures
        .ranks
        .iter()
        .filter_map(|rank| rank.steps.as_ref());
    if let Some(steps) = steps
        .max_by_key(|steps| steps.median_ns)
        .filter(|steps| !steps.steps.is_empty())
    {
        let more = match steps.spread {
            Some(spread) => format!(
                "{} steps, middle half within {}",
                steps.steps.len(),
                percent(spread)
            ),
            None => format!("{} steps", steps.steps.len()),
        };
        out.push(("median step", duration(steps.median_ns), more));
    }
    let flops = profile.figures.ranks.first().map(|rank| &rank.flops);
    if let Some(mfu) = flops.and_then(|flops| flops.mfu.or(flops.hfu)) {
        let name = if flops.is_some_and(|flops| flops.mfu.is_some()) {
            "MFU"
        } else {
            "HFU"
        };
        out.push((name, percent(mfu), "of the dense peak".into()));
    }
    let memory = profile.figures.ranks.iter().flat_map(|rank| &rank.memory);
    let peak = memory
        .filter(|memory| memory.device.is_some())
        .filter_map(|memory| memory.peak_allocated)
        .max();
    if let Some(peak) = peak {
        out.push(("peak memory", bytes(Bytes::new(peak)), "in tensors".into()));
    }
    out
}

fn question(profile: &Profile) -> Vec<(&'static str, String)> {
    let summary = profile.summary;
    let ranks = &profile.figures.ranks;
    let mut out = Vec::new();
    let files: Vec<String> = match summary.files.as_slice() {
        [] => ranks.iter().map(|rank| rank.file.clone()).collect(),
        files => files.to_vec(),
    };
    match files.as_slice() {
        [] => {}
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            out.push((
                "Files",
                format!("{first}, {second}, {third} and {} more", rest.len()),
            ));
        }
        files => out.push((
            if files.len() == 1 { "File" } else { "Files" },
            files.join(", "),
        )),
    }
    if !summary.hardware.is_empty() {
        out.push(("Hardware", summary.hardware.join(", ")));
    }
    if !summary.software.is_empty() {
        let pairs: Vec<String> = summary
            .software
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        out.push(("Software", pairs.join(", ")));
    }
    let work: u64 = ranks.iter().map(|rank| rank.whole.work_count).sum();
    let events: u64 = ranks.iter().map(|rank| rank.event_count).sum();
    out.push((
        "Events",
        format!(
            "{}, of them {} kernels, copies and fills",
            crate::figures::count(events),
            crate::figures::count(work)
        ),
    ));
    if let Some(text) = kernels(ranks) {
        out.push(("Kernels", text));
    }
    out
}

/// How long kernels are on average and how many are short.
fn kernels(ranks: &[RankFigures]) -> Option<String> {
    let work: u64 = ranks.iter().map(|rank| rank.whole.work_count).sum();
    let short: u64 = ranks.iter().map(|rank| rank.whole.below_10us).sum();
    let time: i64 = ranks.iter().map(|rank| rank.whole.kernel_time_ns).sum();
    let kernels: u64 = ranks
        .iter()
        .map(|rank| rank.whole.classes.communication_count + rank.whole.classes.computation_count)
        .sum();
    (kernels > 0).then(|| {
        format!(
            "{} on average; {} of all work is shorter than 10 µs; {} launches a second",
            duration(tables::mean(time, kernels)),
            percent(short as f64 / work.max(1) as f64),
            ranks
                .iter()
                .map(|rank| rank.whole.span_ns())
                .max()
                .filter(|span| *span > 0)
                .map_or(MISSING.into(), |span| number(
                    work as f64 / (span as f64 * 1e-9)
                ))
        )
    })
}
