//! What the feasible deployments are ranked by, and the front of cost against latency.

use super::{Feasible, Screening, request::Request};
use crate::search::{Offered, ShortlistRule, Standing, shortlist};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::deployment::{FrontPoint, Objective};

/// Points beside the front that a report shows.
const POINTS: usize = 160;

/// Indices of feasible candidates to show, best first.
///
/// Weights as published come first, unless a limit on the quality loss or a precision was asked for.
pub(crate) fn ranked(request: &Request<'_>, judged: &Screening<'_>) -> Vec<usize> {
    let limit = request.workload.limits.quality_loss;
    let shown = ShortlistRule {
        top: request.choices.top,
        published_first: limit.is_none() && request.choices.weights.is_empty(),
    };
    let standings: Vec<Standing> = judged
        .feasible
        .iter()
        .map(|feasible| standing(request.choices.objective, judged, feasible))
        .collect();
    shortlist(&standings, shown)
}

fn standing(objective: Objective, judged: &Screening<'_>, feasible: &Feasible<'_>) -> Standing {
    let candidate = &feasible.candidate;
    // Of slices at one price the smallest: what is left serves others.
    let share = match candidate.device.slice {
        Some(_) => 1.0 + candidate.device.compute_share(),
        None => 0.0,
    };
    Standing {
        tight: false,
        offered: Offered::of(feasible.rental.as_ref()),
        key: key(objective, feasible),
        ties: [
            cost(feasible),
            f64::from(feasible.evaluated.devices()),
            share,
            feasible.figures.end_to_end,
        ],
        name: String::new(),
        // One deployment of a GPU and of its slices, as one pool and as two, in each precision.
        kind: format!(
            "{}|{}|{}|{}",
            candidate.device.gpu.name,
            candidate.device.slice.is_some(),
            feasible.evaluated.stages.is_some(),
            judged.format(candidate)
        ),
        lower: !judged.choices[candidate.choice].published,
    }
}

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
pub(crate) fn label(judged: &Screening<'_>, feasible: &Feasible<'_>) -> String {
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
pub(crate) fn points(judged: &Screening<'_>) -> Vec<FrontPoint> {
    let mut order: Vec<(Standing, &Feasible<'_>)> = judged
        .feasible
        .iter()
        .map(|feasible| (standing(Objective::Cost, judged, feasible), feasible))
        .collect();
    order.sort_by(|a, b| a.0.better(&b.0));
    let mut fastest = f64::INFINITY;
    let mut others = 0;
    let mut out = Vec::new();
    for (_, feasible) in order {
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
            per_hour: feasible.figures.cost.per_hour,
            ttft: feasible.figures.ttft,
            tpot: feasible.figures.tpot,
            end_to_end: feasible.figures.end_to_end,
            joules_per_token: feasible.figures.joules,
            on_front,
        });
    }
    out
}
