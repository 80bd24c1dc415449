//! Which of the feasible candidates are shown, and in which order.

use super::{Feasible, Judged, request::Request};
use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::cmp::Ordering;
use gpuwise_domain::deployment::{FrontPoint, Objective};

/// Points beside the front that a report shows.
const POINTS: usize = 160;
/// Of the deployments shown, so many may be of a lower precision than published.
const ALTERNATIVES: usize = 2;
/// And only where they need less than this share of what the best as published needs.
const WORTHWHILE: f64 = 0.95;

/// Indices of feasible candidates to show, best first.
///
/// Weights as published come first; lower precisions are alternatives that the reader chooses,
/// unless a limit on the quality loss or a precision was asked for.
pub(crate) fn ranked(request: &Request<'_>, judged: &Judged<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..judged.feasible.len()).collect();
    order.sort_by(|a, b| {
        better(
            request.choices.objective,
            &judged.feasible[*a],
            &judged.feasible[*b],
        )
    });
    let mut seen = BTreeSet::new();
    let kinds: Vec<usize> = order
        .into_iter()
        .filter(|at| seen.insert(kind(judged, &judged.feasible[*at])))
        .collect();
    let (top, objective) = (request.choices.top, request.choices.objective);
    let chosen =
        request.workload.limits.quality_loss.is_some() || !request.choices.weights.is_empty();
    if chosen {
        return kinds.into_iter().take(top).collect();
    }
    let (published, lower): (Vec<usize>, Vec<usize>) = kinds
        .into_iter()
        .partition(|at| judged.choices[judged.feasible[*at].candidate.choice].published);
    let best = published.first().map(|at| &judged.feasible[*at]);
    // A lower precision is worth showing where it saves more than a rounding.
    let worth = |at: &&usize| {
        best.is_none_or(|best| {
            let (own, published) = (key(objective, &judged.feasible[**at]), key(objective, best));
            own < WORTHWHILE * published || published.is_infinite() && own.is_finite()
        })
    };
    let alternatives: Vec<usize> = lower
        .iter()
        .filter(worth)
        .copied()
        .take(ALTERNATIVES.min(top / 2))
        .collect();
    let mut out: Vec<usize> = published
        .into_iter()
        .take(top - alternatives.len())
        .collect();
    if out.is_empty() {
        out = lower.into_iter().take(top).collect();
    } else {
        out.extend(alternatives);
    }
    out
}

/// One deployment of a kind is shown: same GPU, slice or not, and weights.
fn kind(judged: &Judged<'_>, feasible: &Feasible<'_>) -> String {
    let candidate = &feasible.candidate;
    format!(
        "{}|{}|{}|{}",
        candidate.device.gpu.name,
        candidate.device.slice.is_some(),
        feasible.evaluated.stages.is_some(),
        judged.format(candidate)
    )
}

/// Less is better. Hosts of one's own come first, unknown prices last.
fn better(objective: Objective, a: &Feasible<'_>, b: &Feasible<'_>) -> Ordering {
    let owned = |f: &Feasible<'_>| f.rental.as_ref().is_none_or(|rental| !rental.is_owned());
    let devices = |f: &Feasible<'_>| f.evaluated.devices();
    let share = |f: &Feasible<'_>| match f.candidate.device.slice {
        Some(_) => 1.0 + f.candidate.device.compute_share(),
        None => 0.0,
    };
    owned(a)
        .cmp(&owned(b))
        .then(key(objective, a).total_cmp(&key(objective, b)))
        .then(cost(a).total_cmp(&cost(b)))
        .then(devices(a).cmp(&devices(b)))
        // Of slices at one price the smallest: what is left serves others.
        .then(share(a).total_cmp(&share(b)))
        .then(a.figures.end_to_end.total_cmp(&b.figures.end_to_end))
}

/// What a deployment is ranked by.
fn key(objective: Objective, feasible: &Feasible<'_>) -> f64 {
    match objective {
        Objective::Cost => cost(feasible),
        Objective::Latency => feasible.figures.end_to_end,
        Objective::Energy => feasible.figures.joules.unwrap_or(f64::INFINITY),
    }
}

fn cost(feasible: &Feasible<'_>) -> f64 {
    feasible
        .figures
        .cost
        .per_hour
        .map_or(f64::INFINITY, |hour| hour.0.as_f64())
}

/// `2 × H100 SXM5 80GB TP2 fp8`.
pub(crate) fn label(judged: &Judged<'_>, feasible: &Feasible<'_>) -> String {
    let setup = &feasible.evaluated.setup;
    let layout = setup.layout;
    let mut text = format!("{} × {}", feasible.evaluated.devices(), setup.device.name());
    if layout.replica_gpus() > 1 {
        text.push(' ');
        text.push_str(&layout.to_string());
    }
    if let Some(stages) = &feasible.evaluated.stages {
        let prefill = stages.pool.layout;
        text = format!("{text} + prefill {prefill}");
    }
    text.push(' ');
    text.push_str(judged.format(&feasible.candidate));
    text
}

/// Cost against latency: the front, and the cheapest others.
pub(crate) fn points(judged: &Judged<'_>) -> Vec<FrontPoint> {
    let mut order: Vec<&Feasible<'_>> = judged.feasible.iter().collect();
    order.sort_by(|a, b| better(Objective::Cost, a, b));
    let mut fastest = f64::INFINITY;
    let mut others = 0;
    let mut out = Vec::new();
    for feasible in order {
        let priced = feasible.figures.cost.per_hour.is_some();
        let on_front = priced && feasible.figures.end_to_end < fastest * 0.999;
        if on_front {
            fastest = feasible.figures.end_to_end;
        } else {
            others += 1;
        }
        if !on_front && others > POINTS {
            continue;
        }
        out.push(FrontPoint {
            label: label(judged, feasible),
            gpu: feasible.candidate.device.gpu.name.clone(),
            per_hour: feasible.figures.cost.per_hour.map(|hour| hour.0.as_f64()),
            ttft: feasible.figures.ttft,
            tpot: feasible.figures.tpot,
            end_to_end: feasible.figures.end_to_end,
            joules_per_token: feasible.figures.joules,
            on_front,
        });
    }
    out
}
