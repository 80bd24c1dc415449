//! Findings from traces: what limits a job, how it is known, what a fix would gain.
//!
//! A finding is one module: its definition, thresholds, the time that is charged to it, its sentence,
//! its fix and its tests; and one line of the registry in `rules`. Each rank's time is charged to
//! causes as its timeline is there ([`signals`]); findings are concluded from the charges and figures
//! of all ranks ([`of_profile`]). Idle time belongs to one cause only; what kernels lost may overlap,
//! which the findings say.

mod attention;
mod beside;
mod cpu;
mod gaps;
mod host;
pub mod layouts;
mod ledger;
mod lost;
mod products;
mod replay;
mod rule;
mod rules;
mod sequences;
mod stack;
#[cfg(test)]
mod testing;
mod work;

pub use ledger::{Cause, Charged, Gained, StepCharges};
pub use lost::step_without;
pub use rule::{Row, Thresholds, ThresholdsError};
pub use stack::{Framework, Stack, Vendor};

use crate::figures::{Settings, lacks};
use crate::operators::{Gpus, device};
use cpu::Cpu;
use gpuwise_domain::profile::{
    figures::{ProfileFigures, StepFigures},
    finding::{Finding, FindingDefinition, Gain},
    timeline::{Needed, Timeline},
};
use host::Host;
use ledger::Ledger;
use replay::Replay;
use rule::{Profile, Rank, Rule};
use rules::RULES;
use std::collections::{BTreeMap, BTreeSet};
use work::Ordered;

/// Causes that took a smaller share of a rank are not played again: no finding speaks of them.
const WORTH: f64 = 0.01;

/// A finding that gains less is not said: it would read 0 %.
const GAIN: f64 = 0.005;

/// Waiting for a data loader.
pub const DATA_LOADING: Cause = rules::data_loading::CAUSE;

/// What the timeline of one rank says of its causes of slowness.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    pub rank: Option<u32>,
    /// The device, where there is only one.
    pub device: Option<i64>,
    /// Compute capability of the devices: the lowest, where all state theirs.
    pub compute_capability: Option<(u32, u32)>,
    /// From the first work to the last.
    pub span_ns: i64,
    /// What it runs on, and uses already.
    pub stack: Stack,
    pub charges: BTreeMap<Cause, Charged>,
    /// The same within each step.
    pub steps: Vec<StepCharges>,
}

/// What each finding is, in the order of the registry.
pub fn definitions() -> impl Iterator<Item = FindingDefinition> {
    RULES.iter().map(|rule| rule.definition)
}

/// The thresholds of all findings, each once.
pub fn thresholds() -> impl Iterator<Item = Row> {
    let mut seen = BTreeSet::new();
    let rows = RULES.iter().flat_map(|rule| rule.thresholds).copied();
    rows.filter(move |row| seen.insert(row.name))
}

/// Charges the time of one rank, within the window and on the device of `settings`. `steps` are
/// those of its figures. Of its device no more is known than the file says.
pub fn signals(
    timeline: &Timeline,
    steps: Option<&StepFigures>,
    settings: &Settings<'_>,
    limits: &Thresholds,
) -> Signals {
    let unknown = Gpus {
        rows: &BTreeMap::new(),
        stated: None,
        measured: &|_, _| None,
    };
    signals_on(&unknown, timeline, steps, settings, limits)
}

/// The same where `gpus` say what its device reaches: what kernels would take that move fewer bytes.
pub fn signals_on(
    gpus: &Gpus<'_>,
    timeline: &Timeline,
    steps: Option<&StepFigures>,
    settings: &Settings<'_>,
    limits: &Thresholds,
) -> Signals {
    let ordered = Ordered::new(timeline, settings);
    let cpu = Cpu::of(timeline, settings.names, steps);
    let step_ns = steps.map_or_else(|| ordered.span(), |steps| steps.median_ns);
    let host = Host::new(timeline, &ordered, settings.names, limits, step_ns);
    let steps = steps.into_iter().flat_map(|figures| &figures.steps);
    let steps = steps.map(|step| (step.start_ns, step.end_ns));
    let mut ledger = Ledger::new(timeline, &ordered, steps);
    let rank = Rank {
        timeline,
        ordered: &ordered,
        host: &host,
        limits,
        alone: ordered.alone(timeline),
        names: settings.names,
        reach: device(timeline, &ordered.works(timeline), gpus),
        cpu: cpu.as_ref(),
    };
    // Without kernels nothing tells busy from idle, and without names nothing is told apart.
    let told = lacks(timeline)
        .iter()
        .all(|lack| !matches!(lack.needed, Needed::Kernels | Needed::Names));
    if told {
        gaps::charge(&rank, &mut ledger);
        for rule in RULES {
            (rule.charge)(&rank, &mut ledger);
        }
        if cpu.is_none() {
            played_again(&rank, &mut ledger);
        }
    }
    let rank = timeline.rank.as_ref().map(|rank| rank.number);
    let device = match timeline.devices.as_slice() {
        [only] => Some(only.number),
        _ => None,
    };
    let capabilities = timeline.devices.iter().map(|d| d.compute_capability);
    let compute_capability = capabilities.min().flatten();
    let (charges, steps) = ledger.close(rank, device);
    Signals {
        rank,
        device,
        compute_capability,
        span_ns: cpu.as_ref().map_or_else(|| ordered.span(), Cpu::span),
        stack: Stack::of(timeline),
        charges,
        steps,
    }
}

/// Says of each cause that was charged enough what the rank would gain without it.
fn played_again(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let least = (rank.ordered.span() as f64 * WORTH) as i64;
    let mut replay = None;
    let mut gained = Vec::new();
    for (cause, removed) in ledger.charged(least) {
        let rule = RULES.iter().find(|rule| rule.definition.class == cause.0);
        let Some(rule) = rule else { continue };
        let replay = replay.get_or_insert_with(|| Replay::new(rank));
        let whole = (rule.whole)(rank.host);
        gained.push((cause, replay.gained(removed, whole, rule.waits)));
    }
    for (cause, gained) in gained {
        ledger.gained(cause, gained);
    }
}

/// Findings of a profile, the one that gains most first; what threatens the run before all.
/// `signals` are those of the ranks of `figures`, in its order.
pub fn of_profile(
    signals: &[Signals],
    figures: &ProfileFigures,
    limits: &Thresholds,
) -> Vec<Finding> {
    let profile = Profile {
        signals,
        figures,
        limits,
        stack: Stack::together(signals.iter().map(|one| one.stack)),
    };
    let mut found: Vec<(&Rule, Finding)> = Vec::new();
    for rule in RULES {
        let said = (rule.find)(&profile).into_iter();
        let gains = |one: &Finding| !matches!(one.gain, Gain::Time { high, .. } if high < GAIN);
        found.extend(said.filter(gains).map(|one| (rule, one)));
    }
    overlaps(&mut found);
    let exhausted = found.iter().any(|(rule, _)| rule.ends_run);
    found.sort_by(|one, other| {
        let weight = |(rule, finding): &(&Rule, Finding)| weight(rule, finding, figures, exhausted);
        let (one, other) = (weight(one), weight(other));
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// By what findings are ordered: what is certain to be gained, then what may be. Bytes count as a
/// share of the device, and above all else where the device is nearly full, since that ends the run;
/// of two findings of memory then the one that says so.
fn weight(rule: &Rule, finding: &Finding, figures: &ProfileFigures, exhausted: bool) -> (f64, f64) {
    match finding.gain {
        Gain::Time { low, high } | Gain::Device { low, high } => (low, high),
        Gain::Memory { low, high } => {
            let capacity = work::smallest_device(figures).unwrap_or(u64::MAX) as f64;
            let share = high as f64 / capacity;
            match (work::nearly_full(figures), rule.ends_run) {
                (true, true) => (2.0, share),
                (true, false) if !exhausted => (1.0, share),
                _ => (low as f64 / capacity, share),
            }
        }
        Gain::Safety => (3.0, 0.0),
        Gain::Unknown => (0.0, 0.0),
    }
}

/// Says of findings that look at the same kernels that their gains overlap.
fn overlaps(found: &mut [(&Rule, Finding)]) {
    let same = found.iter().filter(|(rule, _)| rule.same_kernels);
    let same: Vec<&str> = same.map(|(rule, _)| rule.definition.class).collect();
    for (rule, finding) in found.iter_mut().filter(|(rule, _)| rule.same_kernels) {
        let own = rule.definition.class;
        let others: Vec<&str> = same.iter().copied().filter(|one| *one != own).collect();
        if !others.is_empty() {
            finding.advice.push(format!(
                "Its gain overlaps with that of {}: they look at the same kernels, do not add them.",
                others.join(", ")
            ));
        }
    }
}
