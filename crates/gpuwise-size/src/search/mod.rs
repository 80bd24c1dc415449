//! Enumerating deployments, testing them against the promise, and ranking what remains.

mod candidates;
mod disaggregated;
mod drafts;
mod dropped;
mod evaluate;
mod explain;
mod figures;
pub(crate) mod offers;
mod offload;
mod quality;
mod rank;
mod rebuilt;
mod relaxed;
mod report;
mod request;
mod service;

pub(crate) use candidates::devices_within;
pub use offers::{cheapest_rental, per_hour};
pub use rebuilt::{RebuildError, setups};
pub use request::{Choices, DraftModel, Fixed, LayoutWish, Request};

use alloc::{format, string::String, vec::Vec};
use candidates::WeightChoice;
use evaluate::{Evaluated, Failure, evaluate};
use gpuwise_domain::{
    deployment::{ModelSummary, Quality, Rental, Sizing, Test},
    gpu::Device,
    layout::Layout,
    model::{Architecture, LayerRun},
    offer::Offer,
    precision::{CacheFormat, WeightFormat},
    reason::Reason,
};

/// A candidate before it is judged.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) device: Device<'a>,
    pub(crate) layout: Layout,
    pub(crate) choice: usize,
    /// What is not quantized was cast to this, where it is not as stored.
    pub(crate) cast: Option<WeightFormat>,
    pub(crate) cache: CacheFormat,
}

/// A candidate that keeps the SLO, with what it costs.
#[derive(Debug, Clone)]
pub(crate) struct Feasible<'a> {
    pub(crate) candidate: Candidate<'a>,
    pub(crate) evaluated: Evaluated<'a>,
    pub(crate) rental: Option<Rental>,
    pub(crate) figures: figures::Worked,
}

/// A candidate that does not.
#[derive(Debug, Clone)]
pub(crate) struct Failed<'a> {
    pub(crate) candidate: Candidate<'a>,
    pub(crate) failure: Failure,
}

/// Every candidate, judged.
pub(crate) struct Judged<'a> {
    pub(crate) choices: Vec<WeightChoice>,
    pub(crate) feasible: Vec<Feasible<'a>>,
    pub(crate) failed: Vec<Failed<'a>>,
}

impl Judged<'_> {
    /// The name of a candidate's weight format, as it runs.
    pub(crate) fn format(&self, candidate: &Candidate<'_>) -> &str {
        let choice = &self.choices[candidate.choice];
        match candidate.cast {
            Some(cast) if choice.weights.quantization.is_none() => cast.name,
            _ => &choice.name,
        }
    }
}

/// Sizes a model under a workload: ranked deployments, or why there are none.
///
/// Infeasible is an answer: `deployments` is empty and `dropped` says what is short.
pub fn plan(request: &Request<'_>) -> Sizing {
    let merged = with_equal_layers_merged(request.architecture);
    let request = &Request {
        architecture: &merged,
        ..request.clone()
    };
    let judged = judge(request);
    let considered = (judged.feasible.len() + judged.failed.len()) as u64;
    let ranked = rank::ranked(request, &judged);
    let deployments: Vec<_> = ranked
        .iter()
        .map(|at| report::deployment(request, &judged, *at))
        .collect();
    let curve = ranked
        .first()
        .map(|at| figures::curve(request, &judged.feasible[*at]))
        .unwrap_or_default();
    Sizing {
        model: summary(request),
        workload: request.workload.clone(),
        objective: request.choices.objective,
        points: rank::points(&judged),
        dropped: dropped::dropped(request, &judged, &ranked),
        considered,
        curve,
        notes: notes(request, &judged)
            .into_iter()
            .chain(offload::note(request, &judged, &ranked))
            .chain(drafts::notes(request))
            .collect(),
        deployments,
    }
}

/// The model with equal layers as one run each, wherever they stand: memory and speed are sums over
/// layers in whatever order, and thousands of candidates take each sum.
fn with_equal_layers_merged(architecture: &Architecture) -> Architecture {
    let mut merged = architecture.clone();
    let mut runs: Vec<LayerRun> = Vec::new();
    for run in merged.layers {
        match runs.iter_mut().find(|known| known.layer == run.layer) {
            Some(known) => known.count += run.count,
            None => runs.push(run),
        }
    }
    merged.layers = runs;
    merged
}

fn judge<'a>(request: &Request<'a>) -> Judged<'a> {
    let choices = candidates::weight_choices(request);
    let caches = candidates::cache_choices(request);
    let max_context = context(request);
    let mut feasible = Vec::new();
    let mut failed = Vec::new();
    for device in candidates::devices(request) {
        let offers = offers::offers_of(request, &device.gpu.name);
        let layouts = candidates::layouts(request, &device);
        for (choice, weights) in choices.iter().enumerate() {
            for cache in &caches {
                let setup = |layout| {
                    candidates::setup(request, device, layout, weights, *cache, max_context)
                };
                let native = setup(Layout::SINGLE).weights.native;
                let cast = (native != weights.weights.native).then_some(native);
                let mut judge = |layout, verdict: Result<Evaluated<'a>, Failure>| {
                    let candidate = Candidate {
                        device,
                        layout,
                        choice,
                        cast,
                        cache: *cache,
                    };
                    match verdict
                        .and_then(|evaluated| priced(request, evaluated, &offers, &weights.quality))
                    {
                        Ok((evaluated, rental, figures)) => feasible.push(Feasible {
                            candidate,
                            evaluated,
                            rental,
                            figures,
                        }),
                        Err(failure) => failed.push(Failed { candidate, failure }),
                    }
                };
                for layout in &layouts {
                    let verdict = candidates::joined(request, &device, layout)
                        .and_then(|()| evaluate(request, setup(*layout)));
                    judge(*layout, verdict);
                }
                if request.choices.disaggregated && device.slice.is_none() {
                    let setups = layouts.iter().map(|layout| setup(*layout)).collect();
                    let pools = disaggregated::evaluate(request, setups);
                    judge(Layout::SINGLE, pools.ok_or_else(disaggregated::none_found));
                }
            }
        }
    }
    Judged {
        choices,
        feasible,
        failed,
    }
}

/// A candidate that keeps the SLO, with its offer and what it costs, if limits allow it.
fn priced<'a>(
    request: &Request<'a>,
    evaluated: Evaluated<'a>,
    offers: &[&Offer],
    quality: &Quality,
) -> Result<(Evaluated<'a>, Option<Rental>, figures::Worked), Failure> {
    let (groups, of) = evaluated.placement();
    let device = evaluated.setup.device;
    let rental = offers::cheapest(request, offers, &device, groups, of);
    let figures = figures::worked(request, &evaluated, rental.as_ref());
    limits(request, &evaluated, &figures, rental.as_ref(), quality)?;
    Ok((evaluated, rental, figures))
}

/// The longest context to serve: as asked, else the longest request, rounded up to 1,024 tokens
/// and at most what the model was made for.
fn context(request: &Request<'_>) -> u64 {
    let fixed = request
        .choices
        .fixed
        .as_ref()
        .and_then(|fixed| fixed.max_context);
    if let Some(tokens) = request.choices.max_context.or(fixed) {
        return tokens;
    }
    let longest = service::longest(request.workload) as u64;
    let rounded = longest.div_ceil(1024) * 1024;
    let lengths = &request.workload.lengths;
    match request.architecture.max_context {
        // Where only the tail is longer than the model takes, the tail is refused.
        Some(most) if most.0 as f64 >= lengths.input.mean + lengths.output.mean => {
            rounded.min(most.0)
        }
        _ => rounded,
    }
}

/// Budget, power and quality.
fn limits(
    request: &Request<'_>,
    evaluated: &Evaluated<'_>,
    figures: &figures::Worked,
    rental: Option<&Rental>,
    quality: &Quality,
) -> Result<(), Failure> {
    let limits = &request.workload.limits;
    let fail = |shortfall: Reason, cure: &str, ratio: f64| {
        Err(Failure {
            test: Test::Limits,
            shortfall,
            cure: Some(cure.into()),
            ratio,
        })
    };
    if let Some(most) = limits.quality_loss {
        match quality {
            Quality::Published => {}
            Quality::Loss { percent, .. } if *percent <= most => {}
            Quality::Loss {
                percent,
                evaluation,
                ..
            } => {
                let what = Reason::Quality {
                    percent: *percent,
                    evaluation: evaluation.clone(),
                    most,
                };
                return fail(
                    what,
                    "a larger --max-quality-loss",
                    percent / most.max(1e-9),
                );
            }
            Quality::Unknown => {
                return fail(Reason::UnknownQuality, "an evaluation of your own", 1.0);
            }
        }
    }
    if let Some((what, cure, ratio)) = offers::unaffordable(limits, rental) {
        return fail(what, cure, ratio);
    }
    if let (Some(cap), Some(power)) = (limits.power, figures.power)
        && power > cap.get()
    {
        let what = Reason::Power {
            watts: power,
            most: cap.get(),
        };
        return fail(
            what,
            "a larger --power, or a lower load",
            power / cap.get().max(1e-9),
        );
    }
    let owned = limits
        .owned
        .iter()
        .find(|(name, _)| *name == evaluated.setup.device.gpu.name);
    if let (Some((_, gpus)), None) = (owned, &figures.rented) {
        let wanted = evaluated.devices();
        let what = Reason::NotOwned {
            wanted,
            owned: *gpus,
        };
        return fail(
            what,
            "more hosts, or a lower load",
            f64::from(wanted) / f64::from((*gpus).max(1)),
        );
    }
    Ok(())
}

fn summary(request: &Request<'_>) -> ModelSummary {
    model_summary(&request.name, &request.origin, request.architecture)
}

/// A model in a few figures.
pub fn model_summary(name: &str, origin: &str, architecture: &Architecture) -> ModelSummary {
    let weights = crate::setup::Weights::published(architecture);
    let bytes: u64 = match &architecture.stored {
        Some(stored) => stored.total(),
        None => architecture
            .tensors()
            .map(|(count, tensor)| count * weights.bytes(tensor))
            .sum(),
    };
    ModelSummary {
        name: name.into(),
        origin: origin.into(),
        model_type: architecture.model_type.clone(),
        parameters: architecture.parameters().0,
        active_parameters: architecture.active_parameters().0,
        layers: architecture.layer_count(),
        published: weights.name(),
        weight_bytes: gpuwise_units::Bytes::new(bytes),
        cache_bytes_per_token: 2
            * (architecture.cache_elements_per_token() + architecture.window_elements_per_token()),
        max_context: architecture.max_context.map(|tokens| tokens.0),
        assumptions: architecture.assumptions.clone(),
    }
}

/// Where no GPU that was allowed will do: the best of all others, in a sentence.
fn elsewhere(request: &Request<'_>) -> Option<String> {
    let limits = &request.workload.limits;
    if limits.gpus.is_empty() && limits.owned.is_empty() {
        return None;
    }
    let mut workload = request.workload.clone();
    workload.limits.gpus.clear();
    workload.limits.owned.clear();
    let free = Request {
        workload: &workload,
        ..request.clone()
    };
    let judged = judge(&free);
    let best = rank::ranked(&free, &judged).into_iter().next()?;
    let feasible = &judged.feasible[best];
    let price = feasible.figures.cost.per_hour;
    let price = price.map_or_else(|| "at an unknown price".into(), |hour| format!("at {hour}"));
    Some(format!(
        "of all GPUs the best that will do is {} {price}",
        rank::label(&judged, feasible)
    ))
}

fn notes(request: &Request<'_>, judged: &Judged<'_>) -> Vec<String> {
    let mut out = request.architecture.assumptions.clone();
    let longest = service::longest(request.workload);
    if let Some(most) = request.architecture.max_context
        && longest > most.0 as f64
    {
        out.push(format!(
            "requests of up to {longest:.0} tokens are longer than the {} that the model takes: what is \
             longer is refused",
            most.0
        ));
    }
    if judged.feasible.is_empty() {
        out.extend(elsewhere(request));
    }
    if judged.feasible.iter().all(|f| f.rental.is_none()) && !judged.feasible.is_empty() {
        out.push(
            "no offer in the catalogue has these GPUs under these limits: prices are unknown"
                .into(),
        );
    }
    out
}
