//! What is concluded from charges and figures of all ranks.

use super::{
    Signals, Thresholds,
    ledger::{Cause, Charged},
    memory, ranks, say,
};
use gpuwise_domain::profile::{
    figure::Scope,
    figures::ProfileFigures,
    finding::{Evidence, Finding, Gain, Place},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// How many places a finding shows.
const PLACES: usize = 24;
/// How many names it keeps.
const NAMED: usize = 5;

/// What each cause is called, what it is held against, and how much of it a cure is known to bring.
struct Rule {
    cause: Cause,
    class: &'static str,
    threshold: fn(&Thresholds) -> f64,
    certain: fn(&Thresholds) -> f64,
}

const fn rule(
    cause: Cause,
    class: &'static str,
    threshold: fn(&Thresholds) -> f64,
    certain: fn(&Thresholds) -> f64,
) -> Rule {
    Rule {
        cause,
        class,
        threshold,
        certain,
    }
}

const RULES: &[Rule] = &[
    rule(
        Cause::Loader,
        "data_loading",
        |t| t.loader_share,
        |t| t.certain_loader,
    ),
    rule(
        Cause::Host,
        "host_bound",
        |t| t.host_bound_share,
        |t| t.certain_host,
    ),
    rule(
        Cause::SmallKernels,
        "small_kernels",
        |t| t.small_kernels_share,
        |t| t.certain_host,
    ),
    rule(
        Cause::FirstUse,
        "first_use",
        |t| t.first_use_share,
        |t| t.certain_host,
    ),
    rule(
        Cause::Synchronisation,
        "synchronisation",
        |t| t.synchronisation_share,
        |t| t.certain_host,
    ),
    rule(
        Cause::Pageable,
        "pageable_copies",
        |t| t.pageable_share,
        |t| t.certain_host,
    ),
    rule(Cause::Pcie, "pcie", |t| t.pcie_share, |t| t.certain_host),
    rule(Cause::Rest, "idle", |t| t.idle_share, |t| t.certain_host),
    rule(
        Cause::Communication,
        "communication",
        |t| t.communication_share,
        |t| t.certain_kernel,
    ),
    rule(
        Cause::Throttled,
        "throttled_clock",
        |t| t.throttle_share,
        |t| t.certain_clock,
    ),
    rule(
        Cause::Occupancy,
        "low_occupancy",
        |t| t.occupancy_share,
        |t| t.certain_kernel,
    ),
    rule(
        Cause::TensorCores,
        "tensor_cores_unused",
        |t| t.tensor_cores_share,
        |t| t.certain_kernel,
    ),
    rule(
        Cause::Precision,
        "wrong_precision",
        |t| t.tensor_cores_share,
        |t| t.certain_kernel,
    ),
];

/// Causes that look at the same kernels: their gains overlap.
const SAME_KERNELS: &[Cause] = &[
    Cause::Throttled,
    Cause::Occupancy,
    Cause::TensorCores,
    Cause::Precision,
];

/// Findings of a profile, the one that gains most first; what threatens the run before all.
/// `signals` are those of the ranks of `figures`, in its order.
pub fn of_profile(
    signals: &[Signals],
    figures: &ProfileFigures,
    limits: &Thresholds,
) -> Vec<Finding> {
    let straggler = ranks::straggler(signals, figures, limits);
    let mut found: Vec<(Kind, Finding)> = Vec::new();
    for rule in RULES {
        let charged = together(signals, rule.cause, figures, straggler.as_ref());
        if let Some(finding) = of_cause(rule, &charged, signals, limits) {
            found.push((Kind::Charged(rule.cause), finding));
        }
    }
    found.extend(straggler.map(|straggler| (Kind::Other, straggler.finding)));
    found.extend(
        memory::findings(figures, limits)
            .into_iter()
            .map(|(kind, finding)| (Kind::Memory(kind), finding)),
    );
    found.extend(compute_bound(figures, limits).map(|finding| (Kind::Other, finding)));
    overlaps(&mut found);
    let full = found.iter().any(|(kind, _)| *kind == FULL);
    found.sort_by(|one, other| {
        let (one, other) = (weight(one, figures, full), weight(other, figures, full));
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Which rule a finding is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Charged(Cause),
    Memory(memory::Kind),
    Other,
}

const FULL: Kind = Kind::Memory(memory::Kind::Full);

/// By what findings are ordered: what is certain to be gained, then what may be. Bytes count as a
/// share of the device, and above all else where the device is nearly full, since that ends the run;
/// of two findings of memory then the one that says so.
fn weight(
    (kind, finding): &(Kind, Finding),
    figures: &ProfileFigures,
    exhausted: bool,
) -> (f64, f64) {
    match finding.gain {
        Gain::Time { low, high } | Gain::Device { low, high } => (low, high),
        Gain::Memory { low, high } => {
            let capacity = memory::capacity(figures).unwrap_or(u64::MAX) as f64;
            let share = high as f64 / capacity;
            let full = memory::pressure(figures).is_some_and(|p| p >= memory::NEARLY_FULL);
            match (full, *kind) {
                (true, FULL) => (2.0, share),
                (true, _) if !exhausted => (1.0, share),
                _ => (low as f64 / capacity, share),
            }
        }
        Gain::Safety => (3.0, 0.0),
        Gain::Unknown => (0.0, 0.0),
    }
}

/// What all ranks were charged for one cause.
struct Together {
    share: f64,
    ns: f64,
    count: u64,
    ranks: usize,
    places: Vec<Place>,
    names: Vec<(String, i64)>,
}

fn together(
    signals: &[Signals],
    cause: Cause,
    figures: &ProfileFigures,
    straggler: Option<&ranks::Straggler>,
) -> Together {
    let mut all = Together {
        share: 0.0,
        ns: 0.0,
        count: 0,
        ranks: 0,
        places: Vec::new(),
        names: Vec::new(),
    };
    let mut names: BTreeMap<&str, i64> = BTreeMap::new();
    let span: i64 = signals.iter().map(|one| one.span_ns).sum();
    for (place, one) in signals.iter().enumerate() {
        let Some(charged) = one.charges.get(&cause) else {
            continue;
        };
        let Charged { ns, .. } = charged;
        let waited = match (cause, straggler) {
            (Cause::Communication, Some(straggler)) => straggler.waited(figures, place, one),
            _ => 0.0,
        };
        all.ns += (*ns as f64 - waited).max(0.0);
        all.count += charged.count;
        all.ranks += 1;
        all.places.extend(charged.places.iter().cloned());
        for (name, ns) in &charged.names {
            *names.entry(name).or_default() += ns;
        }
    }
    all.share = if span > 0 { all.ns / span as f64 } else { 0.0 };
    all.places
        .sort_by_key(|p| (Reverse(p.end_ns - p.start_ns), p.rank, p.start_ns));
    all.places.truncate(PLACES);
    all.names = names
        .into_iter()
        .map(|(name, ns)| (name.to_owned(), ns))
        .collect();
    all.names.sort_by_key(|(_, ns)| Reverse(*ns));
    all.names.truncate(NAMED);
    all
}

fn of_cause(
    rule: &Rule,
    charged: &Together,
    signals: &[Signals],
    limits: &Thresholds,
) -> Option<Finding> {
    let threshold = (rule.threshold)(limits);
    if charged.share < threshold || charged.ns <= 0.0 {
        return None;
    }
    let first = charged.names.first();
    let first = first.map_or_else(|| "unnamed work".to_owned(), |(name, _)| say::short(name));
    let (share, lost) = (say::percent(charged.share), say::time(charged.ns));
    let mut evidence = vec![
        shown(
            rule.class,
            charged.share,
            "share of the span",
            Some(threshold),
        ),
        shown("lost_ns", charged.ns, "ns", None),
        shown("places", charged.count as f64, "count", None),
    ];
    let high = charged.share.min(1.0);
    let mut low = high * (rule.certain)(limits);
    if rule.cause == Cause::Precision {
        low = high * certain_precision(signals, limits);
    }
    if let Some(over) = over_link(rule.cause, signals, limits, &mut evidence) {
        low = (high - over).max(0.0);
    }
    if rule.cause == Cause::Throttled {
        let slower = signals.iter().filter_map(|one| one.slower);
        evidence.extend(slower.map(|s| shown("slower", s, "ratio", Some(limits.throttle_ratio))));
    }
    if rule.cause == Cause::SmallKernels {
        let (all, small) = signals.iter().fold((0, 0), |sum, one| {
            (sum.0 + one.kernels.0, sum.1 + one.kernels.1)
        });
        evidence.push(shown("kernels", all as f64, "count", None));
        evidence.push(shown("small_kernels", small as f64, "count", None));
    }
    evidence.extend(predicted_step(rule.cause, signals));
    Some(Finding {
        class: rule.class.to_owned(),
        scope: scope(signals),
        statement: say::statement(rule.cause, &share, &lost, charged.count, &first),
        evidence,
        places: charged.places.clone(),
        gain: Gain::Time { low, high },
        advice: say::advice(rule.cause, &charged.names),
    })
}

/// TF32 is a switch where the device has it; before, precision must change in the model, and nothing
/// is certain.
fn certain_precision(signals: &[Signals], limits: &Thresholds) -> f64 {
    let has_tf32 = |one: &Signals| one.compute_capability.is_some_and(|(major, _)| major >= 8);
    if !signals.is_empty() && signals.iter().all(has_tf32) {
        limits.certain_ampere
    } else {
        0.0
    }
}

/// The share of the span that copies would take at the rate of pinned memory, where they are slower
/// than that; at the full rate none of it is certain to go.
fn over_link(
    cause: Cause,
    signals: &[Signals],
    limits: &Thresholds,
    evidence: &mut Vec<Evidence>,
) -> Option<f64> {
    let kind = match cause {
        Cause::Pageable => 0,
        Cause::Pcie => 1,
        _ => return None,
    };
    let span: i64 = signals.iter().map(|one| one.span_ns).sum();
    let copies = signals.iter().filter_map(|one| one.copies.get(kind));
    let (mut bytes, mut time, mut exposed) = (0.0, 0.0, 0.0);
    for totals in copies {
        bytes += totals.bytes as f64;
        time += totals.sized_ns as f64;
        exposed += totals.exposed_ns as f64;
    }
    if bytes <= 0.0 || time <= 0.0 || span <= 0 {
        return None;
    }
    let rate = bytes / (time * 1e-9);
    evidence.push(shown(
        "copy_rate",
        rate,
        "bytes/s",
        Some(limits.pinned_bytes_per_s),
    ));
    let stays = exposed * (rate / limits.pinned_bytes_per_s).min(1.0);
    Some(stays / span as f64)
}

/// The median step as it is and without what was charged to a cause, in nanoseconds; `None` where
/// there are no steps. Each step loses what the cause costs a step on average: waits of one step
/// often fall into the next, and the first lies before the window.
pub fn step_without(cause: Cause, signals: &[Signals]) -> Option<(i64, i64)> {
    let steps = signals.iter().flat_map(|one| &one.steps);
    let charged: i64 = steps
        .clone()
        .filter_map(|step| step.by_cause.get(&cause))
        .sum();
    let mut lengths: Vec<i64> = steps.map(|step| step.end_ns - step.start_ns).collect();
    let count = i64::try_from(lengths.len()).ok()?;
    let now = median(&mut lengths)?;
    Some((now, now - charged / count.max(1)))
}

fn predicted_step(cause: Cause, signals: &[Signals]) -> Vec<Evidence> {
    step_without(cause, signals).map_or_else(Vec::new, |(now, then)| {
        vec![
            shown("step_median_ns", now as f64, "ns", None),
            shown("step_median_without_ns", then as f64, "ns", None),
        ]
    })
}

fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2)
}

fn compute_bound(figures: &ProfileFigures, limits: &Thresholds) -> Option<Finding> {
    let known: Vec<f64> = figures.ranks.iter().filter_map(|r| r.flops.hfu).collect();
    let hfu = known.iter().sum::<f64>() / known.len().max(1) as f64;
    (hfu >= limits.compute_bound_hfu).then(|| Finding {
        class: "compute_bound".to_owned(),
        scope: Scope::default(),
        statement: format!(
            "The counted floating-point work reaches {} of the dense peak: there is little left to gain on this GPU",
            say::percent(hfu)
        ),
        evidence: vec![shown("hfu", hfu, "share of the peak", Some(limits.compute_bound_hfu))],
        places: Vec::new(),
        gain: Gain::Unknown,
        advice: vec!["Fewer operations, a lower precision, or a GPU with more FLOPS.".to_owned()],
    })
}

/// Says of findings that look at the same kernels that their gains overlap.
fn overlaps(found: &mut [(Kind, Finding)]) {
    let looks = |kind: Kind| matches!(kind, Kind::Charged(cause) if SAME_KERNELS.contains(&cause));
    let same: Vec<String> = found
        .iter()
        .filter(|(kind, _)| looks(*kind))
        .map(|(_, finding)| finding.class.clone())
        .collect();
    for (kind, finding) in found {
        let others: Vec<&str> = same
            .iter()
            .map(String::as_str)
            .filter(|class| *class != finding.class)
            .collect();
        if looks(*kind) && !others.is_empty() {
            finding.advice.push(format!(
                "Its gain overlaps with that of {}: they look at the same kernels, do not add them.",
                others.join(", ")
            ));
        }
    }
}

/// One rank: that rank and its device. Several: all of them.
fn scope(signals: &[Signals]) -> Scope {
    match signals {
        [only] => Scope {
            rank: only.rank,
            device: only.device,
            part: None,
        },
        _ => Scope::default(),
    }
}

pub(super) fn shown(figure: &str, value: f64, unit: &str, threshold: Option<f64>) -> Evidence {
    Evidence {
        figure: figure.to_owned(),
        value,
        unit: unit.to_owned(),
        threshold,
    }
}
