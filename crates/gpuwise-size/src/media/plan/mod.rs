//! From a network and a rate to GPUs: every device and format is tried, with the batch and the
//! number of replicas that keep the SLO, and priced by real offers.

mod candidate;
mod report;

use super::constants::Constants;
use crate::search::{
    devices_within,
    offers::{offers_within, per_hour, placed, unaffordable},
};
use alloc::{format, string::String, vec::Vec};
use candidate::{Tried, Why};
use core::cmp::Ordering;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Objective, Rental},
    gpu::{Device, Gpu},
    media::{MediaDropped, MediaSizing, MediaUnit},
    network::Walk,
    offer::Terms,
    precision::Compute,
    workload::{Limits, Target},
};
use gpuwise_units::HourlyPrice;

/// Of the deployments shown, so many may be of a lower precision than asked for nothing.
const ALTERNATIVES: usize = 2;
/// And only where they need less than this share of what the best needs.
const WORTHWHILE: f64 = 0.95;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The network's name.
    pub name: String,
    /// What it makes of what.
    pub task: String,
    /// What one input of it costs.
    pub walk: &'a Walk,
    /// One input in words.
    pub input: String,
    /// In what is counted.
    pub unit: MediaUnit,
    /// Units a second.
    pub rate: f64,
    /// Inputs of the network for one unit.
    pub inputs: f64,
    /// Promised latency.
    pub latency: Option<Target>,
    /// What may be used.
    pub limits: &'a Limits,
    /// Under which terms offers are priced.
    pub terms: Terms,
    /// What deployments are ranked by.
    pub objective: Objective,
    /// Formats of the main part; empty: 16 bits, and 8 bits as alternatives.
    pub formats: Vec<Compute>,
    /// Inputs of a batch at most; `None`: what is usual.
    pub batch: Option<u32>,
    /// Whether MIG slices are candidates.
    pub slices: bool,
    /// Deployments to show.
    pub top: usize,
    /// GPUs and offers.
    pub catalogue: &'a Catalogue,
    /// Fitted constants.
    pub constants: &'a Constants,
}

/// A candidate that keeps the SLO, with its price.
struct Feasible<'a> {
    tried: Tried<'a>,
    lower: bool,
    rental: Option<Rental>,
    hour: Option<HourlyPrice>,
}

/// Sizes a network under a rate: ranked deployments, or why there are none.
pub fn plan(request: &Request<'_>) -> MediaSizing {
    let mut feasible: Vec<Feasible<'_>> = Vec::new();
    let mut failed: Vec<(Device<'_>, Why)> = Vec::new();
    let mut considered = 0;
    for device in devices_within(request.catalogue, request.limits, request.slices) {
        for (format, lower) in formats(request, device.gpu) {
            considered += 1;
            let judged = candidate::tried(request, device, format)
                .and_then(|tried| bought(request, tried, lower));
            match judged {
                Ok(one) => feasible.push(one),
                Err(why) => failed.push((device, why)),
            }
        }
    }
    let shown = ranked(request, &feasible);
    let parts = request.walk.parts.iter();
    MediaSizing {
        name: request.name.clone(),
        task: request.task.clone(),
        parts: parts
            .map(|part| {
                let flops = part.passes * part.flops() as f64;
                (part.name.clone(), part.parameters, flops)
            })
            .collect(),
        input: request.input.clone(),
        unit: request.unit,
        rate: request.rate,
        latency: request.latency,
        objective: request.objective,
        deployments: shown
            .iter()
            .filter_map(|at| feasible.get(*at))
            .map(|one| report::deployment(request, &one.tried, one.rental.clone(), one.hour))
            .collect(),
        dropped: dropped(request, &feasible, &shown, failed),
        considered,
        notes: notes(request),
    }
}

/// Formats to try, and whether they are lower than what is asked for nothing.
fn formats(request: &Request<'_>, gpu: &Gpu) -> Vec<(Compute, bool)> {
    if !request.formats.is_empty() {
        return request
            .formats
            .iter()
            .map(|format| (*format, false))
            .collect();
    }
    let mut out = alloc::vec![(Compute::Half, false)];
    let lower = [Compute::Fp8, Compute::Int8];
    out.extend(
        lower
            .into_iter()
            .find(|format| gpu.peak.of(*format).is_some())
            .map(|format| (format, true)),
    );
    out
}

fn bought<'a>(request: &Request<'a>, tried: Tried<'a>, lower: bool) -> Result<Feasible<'a>, Why> {
    let limits = request.limits;
    let gpu = &tried.device.gpu.name;
    let offers = offers_within(request.catalogue, limits, request.terms, gpu);
    let size = (tried.replicas, tried.shards);
    let rental = placed(limits, &offers, request.terms, &tried.device, size, false);
    if rental.is_none() && !offers.is_empty() {
        return Err(Why::NoInstance(tried.shards));
    }
    let hour = rental.as_ref().and_then(per_hour);
    if let Some((what, cure, ratio)) = unaffordable(limits, rental.as_ref()) {
        return Err(Why::Dear(what, cure, ratio));
    }
    if let (Some(watts), Some(most)) = (tried.watts, limits.power)
        && watts > most.get()
    {
        return Err(Why::Power(watts));
    }
    Ok(Feasible {
        tried,
        lower,
        rental,
        hour,
    })
}

fn key(request: &Request<'_>, one: &Feasible<'_>) -> f64 {
    match request.objective {
        Objective::Cost => match (one.hour, &one.rental) {
            (Some(hour), _) => hour.0.as_f64(),
            // What is owned costs nothing more; what nobody offers comes last.
            (None, Some(rental)) if rental.is_owned() => 0.0,
            _ => f64::INFINITY,
        },
        Objective::Latency => one.tried.latency,
        Objective::Energy => one
            .tried
            .watts
            .map_or(f64::INFINITY, |watts| watts / request.rate),
    }
}

fn better(request: &Request<'_>, a: &Feasible<'_>, b: &Feasible<'_>) -> Ordering {
    key(request, a)
        .total_cmp(&key(request, b))
        .then(a.tried.devices().cmp(&b.tried.devices()))
        .then(a.tried.latency.total_cmp(&b.tried.latency))
        .then_with(|| a.tried.device.name().cmp(&b.tried.device.name()))
}

/// Indices of what is shown, best first: one of a kind each.
fn ranked(request: &Request<'_>, feasible: &[Feasible<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..feasible.len()).collect();
    order.sort_by(|a, b| better(request, &feasible[*a], &feasible[*b]));
    let (lower, usual): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|at| feasible[*at].lower);
    let best = usual.first().map(|at| key(request, &feasible[*at]));
    let worth = |at: &&usize| {
        let own = key(request, &feasible[**at]);
        best.is_none_or(|best| own < WORTHWHILE * best || best.is_infinite() && own.is_finite())
    };
    let beside = lower
        .iter()
        .filter(worth)
        .take(ALTERNATIVES.min(request.top / 2));
    let beside: Vec<usize> = beside.copied().collect();
    let room = request.top.saturating_sub(beside.len());
    usual.into_iter().take(room).chain(beside).collect()
}

/// One reason for each GPU that is not shown.
fn dropped(
    request: &Request<'_>,
    feasible: &[Feasible<'_>],
    shown: &[usize],
    failed: Vec<(Device<'_>, Why)>,
) -> Vec<MediaDropped> {
    let mut out: Vec<MediaDropped> = Vec::new();
    let shown_gpu = |name: &str| {
        shown
            .iter()
            .filter_map(|at| feasible.get(*at))
            .any(|one| one.tried.device.gpu.name == name)
    };
    let mut add = |gpu: &str, reason: String| {
        if !shown_gpu(gpu) && !out.iter().any(|dropped| dropped.gpu == gpu) {
            out.push(MediaDropped {
                gpu: gpu.into(),
                reason,
            });
        }
    };
    let mut order: Vec<&Feasible<'_>> = feasible.iter().collect();
    order.sort_by(|a, b| better(request, a, b));
    for one in order {
        let devices = one.tried.devices();
        let name = &one.tried.device.gpu.name;
        add(
            name,
            match one.hour {
                Some(hour) => format!(
                    "it would suffice with {devices}, for {:.2} {} an hour",
                    hour.0.as_f64(),
                    hour.0.currency.code()
                ),
                None => {
                    format!("it would suffice with {devices}; nobody offers it at a known price")
                }
            },
        );
    }
    // The nearest first; of a GPU and its slices the whole comes first, and its own reason counts.
    let mut failed = failed;
    failed.sort_by(|a, b| a.1.distance().total_cmp(&b.1.distance()));
    for (device, why) in failed {
        add(&device.gpu.name, why.words());
    }
    out
}

fn notes(request: &Request<'_>) -> Vec<String> {
    let mut notes = request.walk.assumptions.clone();
    notes.push(String::from(
        "requests come at random; replicas share a queue and take what waits, up to a batch",
    ));
    if request.formats.is_empty() {
        notes.push(String::from(
            "8 bits: the main part alone, attention at 16; what that costs in quality is not known here",
        ));
    }
    notes
}
