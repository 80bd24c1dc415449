//! Serving: deployments are enumerated, tested against the SLO, and ranked.

mod candidates;
mod cures;
mod disaggregated;
mod drafts;
mod dropped;
mod evaluate;
mod explain;
mod figures;
mod offload;
mod quality;
mod rank;
mod rebuilt;
mod relaxed;
mod report;
mod request;
mod service;

pub(crate) use candidates::devices_within;
pub use rebuilt::{RebuildError, setups};
pub(crate) use relaxed::{SPARE, rounded_up};
pub use request::{Choices, DraftModel, Fixed, LayoutWish, Request};

use super::{Failure, Market, Sought, affordable, drawn, whole_gpus};
use alloc::{string::String, vec::Vec};
use candidates::WeightChoice;
use evaluate::{Evaluated, evaluate};
use gpuwise_domain::{
    deployment::{ModelSummary, Quality, Rental, ServingCharts, ServingQuestion, Sizing, Test},
    fix::{Fix, Flag},
    gpu::Device,
    layout::Layout,
    model::{Architecture, LayerRun},
    note::{Note, ServingNote},
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

pub(crate) struct Screening<'a> {
    pub(crate) choices: Vec<WeightChoice>,
    pub(crate) feasible: Vec<Feasible<'a>>,
    pub(crate) failed: Vec<Failed<'a>>,
}

impl Screening<'_> {
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
/// Infeasible is an answer: `ranked` is empty and `dropped` says what is short.
pub fn plan(request: &Request<'_>) -> Sizing {
    let merged = with_equal_layers_merged(request.architecture);
    let request = &Request {
        architecture: &merged,
        ..request.clone()
    };
    let judged = judge(request);
    let considered = (judged.feasible.len() + judged.failed.len()) as u64;
    let ranked = rank::ranked(request, &judged);
    let none = ranked.is_empty();
    let elsewhere = none.then(|| elsewhere(request)).flatten();
    let curve = ranked
        .first()
        .map(|at| figures::curve(request, &judged.feasible[*at]))
        .unwrap_or_default();
    Sizing {
        question: ServingQuestion {
            model: summary(request),
            workload: request.workload.clone(),
            objective: request.choices.objective,
        },
        ranked: ranked
            .iter()
            .map(|at| report::deployment(request, &judged, *at))
            .collect(),
        dropped: dropped::dropped(request, &judged, &ranked, fix_of(elsewhere.as_ref())),
        considered,
        notes: notes(request, &judged, &ranked, elsewhere.map(|(_, note)| note)),
        charts: ServingCharts {
            points: rank::points(&judged),
            curve,
        },
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

fn judge<'a>(request: &Request<'a>) -> Screening<'a> {
    let market = Market::new(
        request.catalogue,
        &request.workload.limits,
        request.choices.terms,
    );
    let choices = candidates::weight_choices(request);
    let max_context = context(request);
    let mut feasible = Vec::new();
    let mut failed = Vec::new();
    for device in candidates::devices(request) {
        let offers = market.offers(&device.gpu.name);
        let layouts = candidates::layouts(request, &device);
        for (choice, weights) in choices.iter().enumerate() {
            for cache in candidates::cache_choices(request, &weights.weights, device.gpu) {
                let setup = |layout| {
                    candidates::setup(request, device, layout, weights, cache, max_context)
                };
                let native = setup(Layout::SINGLE).weights.native;
                let cast = (native != weights.weights.native).then_some(native);
                let mut judge = |layout, verdict: Result<Evaluated<'a>, Failure>| {
                    let candidate = Candidate {
                        device,
                        layout,
                        choice,
                        cast,
                        cache,
                    };
                    match verdict.and_then(|evaluated| {
                        priced(request, evaluated, (&market, &offers), &weights.quality)
                    }) {
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
    Screening {
        choices,
        feasible,
        failed,
    }
}

/// A candidate that keeps the SLO, with its offer and what it costs, if limits allow it.
fn priced<'a>(
    request: &Request<'a>,
    evaluated: Evaluated<'a>,
    (market, offers): (&Market<'_>, &[&Offer]),
    quality: &Quality,
) -> Result<(Evaluated<'a>, Option<Rental>, figures::Worked), Failure> {
    let (groups, of) = evaluated.placement();
    let device = evaluated.setup.device;
    let rental = market.rent(offers, &device, (groups, of), request.choices.hosts);
    let figures = figures::worked(request, &evaluated, rental.as_ref());
    let sought = Sought {
        market,
        device,
        groups: (groups, of),
        across: request.choices.hosts,
    };
    let rented = (rental.as_ref(), &sought);
    limits(request, &evaluated, &figures, rented, quality)?;
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

/// Quality, budget, power, and GPUs of one's own.
fn limits(
    request: &Request<'_>,
    evaluated: &Evaluated<'_>,
    figures: &figures::Worked,
    (rental, sought): (Option<&Rental>, &Sought<'_>),
    quality: &Quality,
) -> Result<(), Failure> {
    let limits = &request.workload.limits;
    if let Some(most) = limits.quality_loss {
        loses_at_most(most, quality, &evaluated.setup.weights.name())?;
    }
    affordable(limits, rental, sought)?;
    drawn(limits, figures.power)?;
    let gpu = &evaluated.setup.device.gpu.name;
    let owned = limits.owned.iter().find(|(name, _)| name == gpu);
    match owned {
        Some((_, owned)) if figures.rented.is_none() => {
            let (wanted, owned) = (evaluated.devices(), *owned);
            let ratio = f64::from(wanted) / f64::from(owned.max(1));
            let what = Reason::NotOwned { wanted, owned };
            let gpus = whole_gpus(&evaluated.setup.device, wanted);
            let fix = Fix::flag("--owned", alloc::format!("{gpu}:{gpus}"));
            Err(Failure::new(Test::Limits, what, ratio).fixed_by(fix))
        }
        _ => Ok(()),
    }
}

fn loses_at_most(most: f64, quality: &Quality, format: &str) -> Result<(), Failure> {
    match quality {
        Quality::Loss {
            percent,
            evaluation,
            ..
        } if *percent > most => {
            let what = Reason::Quality {
                percent: *percent,
                evaluation: evaluation.clone(),
                most,
            };
            let ratio = percent / most.max(1e-9);
            let hundredths = relaxed::hundredths_up(*percent);
            let fix = Fix::flag("--max-quality-loss", alloc::format!("{hundredths}%"));
            Err(Failure::new(Test::Limits, what, ratio).fixed_by(fix))
        }
        Quality::Unknown => {
            let format = format.into();
            Err(Failure::new(Test::Limits, Reason::UnknownQuality, 1.0)
                .fixed_by(Fix::OwnEvaluation { format }))
        }
        Quality::Published | Quality::Loss { .. } => Ok(()),
    }
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

/// The flag that names the GPU of the best of all others.
fn fix_of(elsewhere: Option<&(String, ServingNote)>) -> Option<Fix> {
    let (gpu, note) = elsewhere?;
    let gives = match note {
        ServingNote::Elsewhere { label, .. } => Some(label.clone()),
        _ => None,
    };
    Some(Fix::Flags {
        flags: alloc::vec![Flag::new("--gpu", gpu)],
        gives,
    })
}

/// Where no GPU that was allowed will do: the best of all others, with the name of its GPU or slice.
fn elsewhere(request: &Request<'_>) -> Option<(String, ServingNote)> {
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
    let note = ServingNote::Elsewhere {
        label: rank::label(&judged, feasible),
        hour: feasible.figures.cost.per_hour,
    };
    Some((feasible.candidate.device.name(), note))
}

fn notes(
    request: &Request<'_>,
    judged: &Screening<'_>,
    ranked: &[usize],
    elsewhere: Option<ServingNote>,
) -> Vec<Note> {
    let assumed = request.architecture.assumptions.iter().cloned();
    let mut out: Vec<Note> = assumed.map(Note::Model).collect();
    let longest = service::longest(request.workload);
    if let Some(most) = request.architecture.max_context
        && longest > most.0 as f64
    {
        let most = most.0;
        out.push(ServingNote::BeyondContext { longest, most }.into());
    }
    out.extend(elsewhere.map(Note::from));
    if judged.feasible.iter().all(|f| f.rental.is_none()) && !judged.feasible.is_empty() {
        out.push(ServingNote::Unpriced.into());
    }
    let host = offload::note(request, judged, ranked);
    out.extend(
        host.into_iter()
            .chain(drafts::notes(request))
            .map(Note::from),
    );
    out
}
