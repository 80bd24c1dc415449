//! From a network and a rate to GPUs: every device and format is tried, with the batch and the
//! number of replicas that keep the SLO, and priced by real offers.

mod candidate;
mod relaxed;
mod report;

use super::constants::Constants;
use crate::search::{
    Failure, Market, Offered, ShortlistRule, Sought, Standing, affordable, devices_within, drawn,
    one_per_gpu, per_hour, shortlist, whole_gpus,
};
use alloc::{format, string::String, vec::Vec};
use candidate::Viable;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Dropped, Objective, Rental, Test},
    fix::{Fix, Flag},
    gpu::{Device, Gpu},
    media::{MediaQuestion, MediaSizing, MediaUnit},
    network::Walk,
    note::{MediaNote, Note},
    offer::Terms,
    precision::Compute,
    reason::Reason,
    workload::{Limits, Target},
};
use gpuwise_units::HourlyPrice;
pub use report::measured_kind;

#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub name: String,
    pub task: String,
    /// What one input of it costs.
    pub walk: &'a Walk,
    pub input: String,
    pub unit: MediaUnit,
    /// Units a second.
    pub rate: f64,
    /// Inputs of the network for one unit.
    pub inputs: f64,
    pub latency: Option<Target>,
    /// What may be used.
    pub limits: &'a Limits,
    /// Under which terms offers are priced.
    pub terms: Terms,
    pub objective: Objective,
    /// Formats of the main part; empty: 16 bits, and 8 bits as alternatives.
    pub formats: Vec<Compute>,
    /// Inputs of a batch at most; `None`: what is usual.
    pub batch: Option<u32>,
    /// Whether MIG slices are candidates.
    pub slices: bool,
    pub top: usize,
    pub catalogue: &'a Catalogue,
    pub constants: &'a Constants,
}

/// A candidate that keeps the SLO, with its price.
struct Feasible<'a> {
    tried: Viable<'a>,
    lower: bool,
    rental: Option<Rental>,
    hour: Option<HourlyPrice>,
}

/// Sizes a network under a rate: ranked deployments, or why there are none.
pub fn plan(request: &Request<'_>) -> MediaSizing {
    let mut feasible: Vec<Feasible<'_>> = Vec::new();
    let mut failures = Vec::new();
    let mut considered = 0;
    let market = Market::new(request.catalogue, request.limits, request.terms);
    for device in devices_within(request.catalogue, request.limits, request.slices) {
        for (format, lower) in formats(request, device.gpu) {
            considered += 1;
            match judged(request, &market, device, (format, lower)) {
                Ok(one) => feasible.push(one),
                Err(failure) => failures.push((device, format, failure)),
            }
        }
    }
    let none = feasible.is_empty();
    let mut failed: Vec<Dropped> = Vec::new();
    for (device, format, mut failure) in failures {
        if none {
            relaxed::fixed(request, device, format, &mut failure);
        }
        failed.push(failure.dropped(device.name(), &device.gpu.name));
    }
    if let Some(fix) = feasible.is_empty().then(|| elsewhere(request)).flatten() {
        let unfixed = failed.iter_mut().filter(|one| one.fixes.is_empty());
        unfixed.for_each(|one| one.fixes.push(fix.clone()));
    }
    let shown = ranked(request, &feasible);
    let parts = request.walk.parts.iter();
    MediaSizing {
        question: MediaQuestion {
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
        },
        ranked: shown
            .iter()
            .filter_map(|at| feasible.get(*at))
            .map(|one| report::deployment(request, &one.tried, one.rental.clone(), one.hour))
            .collect(),
        dropped: dropped(&feasible, &shown, failed),
        considered,
        notes: notes(request),
        charts: (),
    }
}

/// Where no GPU that was allowed will do: the best of all others.
fn elsewhere(request: &Request<'_>) -> Option<Fix> {
    if request.limits.gpus.is_empty() && request.limits.owned.is_empty() {
        return None;
    }
    let limits = Limits {
        gpus: Vec::new(),
        owned: Vec::new(),
        ..request.limits.clone()
    };
    let found = plan(&Request {
        limits: &limits,
        ..request.clone()
    });
    let best = found.ranked.first()?;
    let name = match &best.slice {
        Some(slice) => format!("{} {slice}", best.gpu),
        None => best.gpu.clone(),
    };
    Some(Fix::Flags {
        gives: Some(format!("{} × {name} {}", best.devices(), best.precision)),
        flags: Vec::from([Flag::new("--gpu", name)]),
    })
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

/// Whether a device keeps the SLO in a format, and what it costs.
fn judged<'a>(
    request: &Request<'a>,
    market: &Market<'_>,
    device: Device<'a>,
    (format, lower): (Compute, bool),
) -> Result<Feasible<'a>, Failure> {
    let tried = candidate::tried(request, device, format)?;
    bought(request, market, tried, lower)
}

fn bought<'a>(
    request: &Request<'a>,
    market: &Market<'_>,
    tried: Viable<'a>,
    lower: bool,
) -> Result<Feasible<'a>, Failure> {
    let offers = market.offers(&tried.device.gpu.name);
    let size = (tried.replicas, tried.shards);
    let rental = market.rent(&offers, &tried.device, size, false);
    let sought = Sought {
        market,
        device: tried.device,
        groups: size,
        across: false,
    };
    if rental.is_none() && !offers.is_empty() {
        let what = Reason::NoInstance { gpus: tried.shards };
        let fix = sought.own_price(request.limits.budget);
        return Err(Failure::new(Test::Limits, what, f64::INFINITY).fixed_by(fix));
    }
    affordable(request.limits, rental.as_ref(), &sought)?;
    drawn(request.limits, tried.watts)?;
    Ok(Feasible {
        hour: rental.as_ref().and_then(per_hour),
        tried,
        lower,
        rental,
    })
}

fn standing(request: &Request<'_>, one: &Feasible<'_>) -> Standing {
    let hour = one.hour.map_or(f64::INFINITY, |hour| hour.0.as_f64());
    let name = one.tried.device.name();
    Standing {
        tight: false,
        offered: Offered::of(one.rental.as_ref()),
        key: match request.objective {
            Objective::Cost => hour,
            Objective::Latency => one.tried.latency,
            Objective::Energy => one
                .tried
                .watts
                .map_or(f64::INFINITY, |watts| watts / request.rate),
        },
        ties: [f64::from(one.tried.devices()), one.tried.latency, 0.0, 0.0],
        kind: format!("{name}|{}", one.tried.precision()),
        name,
        lower: one.lower,
    }
}

/// Indices of what is shown, best first.
fn ranked(request: &Request<'_>, feasible: &[Feasible<'_>]) -> Vec<usize> {
    let all: Vec<Standing> = feasible.iter().map(|one| standing(request, one)).collect();
    let shown = ShortlistRule {
        top: request.top,
        published_first: true,
    };
    shortlist(&all, shown)
}

/// One reason for each GPU that is not shown.
fn dropped(feasible: &[Feasible<'_>], shown: &[usize], mut failed: Vec<Dropped>) -> Vec<Dropped> {
    let best = shown.first().and_then(|at| feasible[*at].hour);
    let name = |one: &Feasible<'_>| one.tried.device.gpu.name.clone();
    let published: Vec<String> = feasible.iter().filter(|one| !one.lower).map(name).collect();
    // A lower precision explains a GPU only where nothing else does.
    let telling = |one: &&Feasible<'_>| !one.lower || !published.contains(&name(one));
    failed.extend(feasible.iter().filter(telling).map(|one| {
        let (devices, device) = (one.tried.devices(), one.tried.device.name());
        let label = format!("{devices} × {device} {}", one.tried.precision());
        let own = one.hour.is_none().then(|| Fix::OwnPrice {
            gpu: one.tried.device.gpu.name.clone(),
            gpus: whole_gpus(&one.tried.device, devices),
            at_most: None,
        });
        let failure = Failure::dominated(one.hour, best).fixed_by(own);
        failure.dropped(label, &one.tried.device.gpu.name)
    }));
    let gpu = |at: &usize| feasible[*at].tried.device.gpu.name.as_str();
    one_per_gpu(failed, &shown.iter().map(gpu).collect::<Vec<_>>())
}

fn notes(request: &Request<'_>) -> Vec<Note> {
    let assumed = request.walk.assumptions.iter().cloned();
    let mut notes: Vec<Note> = assumed.map(Note::Model).collect();
    notes.push(MediaNote::RandomArrivals.into());
    if request.formats.is_empty() {
        notes.push(MediaNote::EightBits.into());
    }
    notes
}
