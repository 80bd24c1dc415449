//! A feasible candidate as the deployment that is shown, saved and launched.

use super::{Feasible, Screening, drafts, explain, figures, request::Request};
use crate::{memory, support::cache_name};
use gpuwise_domain::{
    deployment::{Deployment, Headroom, Test},
    limit::{Limit, LimitingFactor, ServingCause},
};
use gpuwise_units::Bytes;

/// The deployment of the candidate at this index.
pub(crate) fn deployment(request: &Request<'_>, judged: &Screening<'_>, at: usize) -> Deployment {
    let feasible = &judged.feasible[at];
    let evaluated = &feasible.evaluated;
    let setup = &evaluated.setup;
    let choice = &judged.choices[feasible.candidate.choice];
    let held = request.workload.lengths.input.mean + request.workload.lengths.output.mean;
    let figures = figures::figures(request, feasible);
    let basis = figures::basis(request, evaluated);
    Deployment {
        model: request.name.clone(),
        engine: setup.engine.kind,
        release: setup.engine.release,
        gpu: setup.device.gpu.name.clone(),
        slice: setup.device.slice.map(|slice| slice.profile.clone()),
        layout: setup.layout,
        prefill: evaluated.stages.as_ref().map(|stages| stages.pool),
        weights: judged.format(&feasible.candidate).into(),
        weights_published: choice.published,
        cache: cache_name(setup, request.facts).into(),
        quality: choice.quality.clone(),
        settings: setup.settings,
        draft_tokens: setup.draft.map_or(0, |draft| draft.tokens),
        acceptance: setup
            .draft
            .filter(|draft| draft.tokens > 0)
            .map(|draft| draft.acceptance),
        draft_model: drafts::name(request),
        host_cache: Bytes::new(request.choices.offload),
        adapters: setup.adapters,
        rental: feasible.rental.clone(),
        memory: memory::report(&evaluated.plan, setup, held),
        derivations: explain::derivations(request, feasible, &figures, basis),
        figures,
        cost: feasible.figures.cost,
        basis,
        bottleneck: bottleneck(feasible),
        headroom: headroom(request, feasible),
    }
}

/// The largest part of the GPUs' time, and what of it.
fn bottleneck(feasible: &Feasible<'_>) -> Option<Limit<ServingCause>> {
    let worked = &feasible.figures;
    let decode = 1.0 - worked.prefill_share;
    let drafts = worked.drafts.unwrap_or(0.0);
    let total = (worked.step.total() + drafts).max(1e-12);
    let of_steps = |seconds: f64| decode * seconds / total;
    let parts = [
        (ServingCause::Prompts, worked.prefill_share),
        (ServingCause::Weights, of_steps(worked.step.dense)),
        (ServingCause::Experts, of_steps(worked.step.experts)),
        (ServingCause::Cache, of_steps(worked.step.attention)),
        (
            ServingCause::Collectives,
            of_steps(worked.step.communication),
        ),
        (ServingCause::Launches, of_steps(worked.step.overhead)),
        (ServingCause::Drafts, of_steps(drafts)),
    ];
    Limit::largest(parts, 1.0)
}

fn headroom(request: &Request<'_>, feasible: &Feasible<'_>) -> Headroom {
    let evaluated = &feasible.evaluated;
    let groups = f64::from(evaluated.setup.layout.replicas) * evaluated.groups();
    let most = evaluated.sustains * groups;
    let asked = evaluated.share(request.workload) * groups;
    let limited_by = match evaluated.limited_by {
        Test::Ttft => LimitingFactor::Ttft,
        Test::Tpot => LimitingFactor::Tpot,
        Test::EndToEnd => LimitingFactor::EndToEnd,
        Test::Memory => LimitingFactor::Sequences,
        _ => LimitingFactor::Throughput,
    };
    Headroom {
        rate: most,
        factor: most / asked.max(1e-12),
        limited_by: Some(limited_by),
    }
}
