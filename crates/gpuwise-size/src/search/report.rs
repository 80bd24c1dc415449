//! A feasible candidate as the deployment that is shown, saved and launched.

use super::{Feasible, Judged, drafts, figures, offload, request::Request};
use crate::{
    constants::{PARAMETERS, Parameter as P},
    memory,
    speed::StepTime,
};
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use gpuwise_domain::{
    deployment::{Deployment, Figures, Headroom, Test},
    estimate::{Basis, Derivation},
    limit::{Beyond, Limit, ServingCause},
    workload::Traffic,
};
use gpuwise_units::{Bytes, significant};

/// The deployment of the candidate at this index.
pub(crate) fn deployment(request: &Request<'_>, judged: &Judged<'_>, at: usize) -> Deployment {
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
        cache: setup.cache.name.into(),
        quality: choice.quality.clone(),
        settings: setup.settings,
        draft_tokens: setup.draft.map_or(0, |draft| draft.tokens),
        draft_model: drafts::name(request),
        host_cache: Bytes::new(request.choices.offload),
        adapters: setup.adapters,
        rental: feasible.rental.clone(),
        memory: memory::report(&evaluated.plan, setup, held),
        derivations: derivations(request, feasible, &figures, basis),
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
    let most = evaluated.bears * groups;
    let asked = evaluated.share(request.workload) * groups;
    let limited_by = match evaluated.limited_by {
        Test::Ttft => Beyond::Ttft,
        Test::Tpot => Beyond::Tpot,
        Test::EndToEnd => Beyond::EndToEnd,
        Test::Memory => Beyond::Sequences,
        _ => Beyond::Throughput,
    };
    Headroom {
        rate: most,
        factor: most / asked.max(1e-12),
        limited_by: Some(limited_by),
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{} ms", significant(seconds * 1e3, 3))
}

fn fact(name: &str, value: String, source: &str) -> Derivation {
    Derivation::fact(name, value, source)
}

fn derivations(
    request: &Request<'_>,
    feasible: &Feasible<'_>,
    figures: &Figures,
    basis: Basis,
) -> Vec<Derivation> {
    let plan = &feasible.evaluated.plan;
    let mut out = vec![
        tpot(request, feasible, figures, basis),
        ttft(request, feasible, figures, basis),
        memory::explain(plan, &feasible.evaluated.setup),
    ];
    out.extend(offload::derivation(plan, request.choices.offload));
    out.extend([
        replicas(request, feasible),
        money(feasible),
        power(feasible),
    ]);
    out
}

/// The constants that a setup's step rests on, each with what it was fitted on.
fn constants(request: &Request<'_>, feasible: &Feasible<'_>, wanted: &[P]) -> Vec<Derivation> {
    let setup = &feasible.evaluated.setup;
    let constants = request.knowledge.constants(setup.engine.kind);
    let place = constants.place(&setup.silicon(), &setup.profile);
    wanted
        .iter()
        .map(|parameter| {
            let info = &PARAMETERS[*parameter as usize];
            let value = format!(
                "{} {}",
                significant(constants.get(*parameter, place), 3),
                info.unit
            );
            let source = format!(
                "fitted (constants.toml), generation {}, profile {}",
                if place.generation.is_some() {
                    setup.device.gpu.generation.as_str()
                } else {
                    "unseen"
                },
                if place.profile.is_some() {
                    setup.profile.as_str()
                } else {
                    "unseen"
                }
            );
            Derivation::fact(info.meaning, value, source)
        })
        .collect()
}

fn device_facts(feasible: &Feasible<'_>) -> Vec<Derivation> {
    let device = &feasible.evaluated.setup.device;
    let gpu = device.gpu;
    vec![fact(
        "peak memory bandwidth",
        format!("{} GB/s", significant(device.bandwidth().get() / 1e9, 4)),
        &gpu.source,
    )]
}

fn tpot(
    request: &Request<'_>,
    feasible: &Feasible<'_>,
    figures: &Figures,
    basis: Basis,
) -> Derivation {
    let evaluated = &feasible.evaluated;
    let step: &StepTime = &feasible.figures.step;
    let part = |name: &str, value: f64, formula: &str, inputs: Vec<Derivation>| {
        Derivation::computed(name, milliseconds(value), formula, inputs)
    };
    let mut dense = constants(request, feasible, &[P::MemoryRate, P::HalfRate, P::Fp8Rate]);
    dense.extend(device_facts(feasible));
    let running = fact(
        "sequences decoding at once on a group",
        significant(evaluated.service.latency().running, 3),
        "Little's law at the asked load",
    );
    let mut steps = vec![
        part(
            "matmuls of attention and MLP",
            step.dense,
            "max(weight bytes / bandwidth, FLOP / rate), smooth",
            dense,
        ),
        part(
            "experts",
            step.experts,
            "experts touched × bytes / bandwidth, or padded FLOP / rate",
            constants(
                request,
                feasible,
                &[P::ExpertMemoryRate, P::ExpertSkew, P::ExpertTile],
            ),
        ),
        part(
            "attention over the KV cache",
            step.attention,
            "sequences × context × KV bytes / bandwidth",
            constants(request, feasible, &[P::CacheRate]),
        ),
        part(
            "collectives",
            step.communication,
            "latency + 2 (n − 1)/n × bytes / link rate",
            constants(request, feasible, &[P::ReduceLatency, P::ReduceRate]),
        ),
        part(
            "kernels, scheduling, sampling",
            step.overhead,
            "kernels × launch + step base + per sequence",
            constants(
                request,
                feasible,
                &[P::Kernel, P::StepBase, P::StepSequence],
            ),
        ),
    ];
    // What a model or layout has not needs no explanation.
    steps.retain(|step| !step.value.starts_with("0 "));
    let decode = Derivation::computed(
        "decode step",
        milliseconds(step.total()),
        "matmuls + experts + attention + collectives + overhead",
        steps,
    );
    let at = figures
        .tpot_at
        .map_or_else(|| "mean".to_string(), |p| p.to_string());
    Derivation::computed(
        format!("TPOT, {at} ({})", basis.name()),
        range(&figures.tpot),
        "(decode step + other requests' prompts in it) / tokens a step, at the percentile",
        [decode, running]
            .into_iter()
            .chain(drafts::derivation(request, feasible))
            .collect(),
    )
}

fn range(estimate: &gpuwise_domain::estimate::Estimate) -> String {
    format!(
        "{} ({}–{})",
        milliseconds(estimate.value),
        significant(estimate.low * 1e3, 3),
        significant(estimate.high * 1e3, 3)
    )
}

fn ttft(
    request: &Request<'_>,
    feasible: &Feasible<'_>,
    figures: &Figures,
    basis: Basis,
) -> Derivation {
    let evaluated = &feasible.evaluated;
    let demand = evaluated.demand;
    let alone = evaluated.cycle.prefill_alone(demand.input, demand.cached);
    let at = figures
        .ttft_at
        .map_or_else(|| "mean".to_string(), |p| p.to_string());
    let inputs = vec![
        Derivation::computed(
            "prefill of one prompt alone",
            milliseconds(alone),
            "steps of at most the batched tokens, each max(bytes, FLOP) as in decode",
            constants(
                request,
                feasible,
                &[P::PrefillFactor, P::AttentionRate, P::HalfRate],
            ),
        ),
        Derivation::computed(
            "front end",
            milliseconds(evaluated.cycle.fronted(demand.input)),
            "front_end + front_token × prompt tokens",
            constants(request, feasible, &[P::FrontEnd, P::FrontToken]),
        ),
        fact(
            "waiting for steps under way and other prompts",
            milliseconds(
                (feasible.figures.ttft - alone - evaluated.cycle.fronted(demand.input)).max(0.0),
            ),
            "queueing at the asked load, at the percentile",
        ),
    ];
    Derivation::computed(
        format!("TTFT, {at} ({})", basis.name()),
        range(&figures.ttft),
        "prefill + front end + waiting",
        inputs,
    )
}

fn replicas(request: &Request<'_>, feasible: &Feasible<'_>) -> Derivation {
    let evaluated = &feasible.evaluated;
    let (unit, asked) = match request.workload.traffic {
        Traffic::Open { rate, .. } => ("requests/s", rate.get()),
        Traffic::Closed { concurrency } => ("requests in flight", concurrency as f64),
    };
    let spare = request.workload.limits.spare_replicas;
    Derivation::computed(
        "replicas",
        evaluated.setup.layout.replicas.to_string(),
        "⌈asked load / what one replica bears with the promise kept⌉ + spares",
        vec![
            fact(
                "asked load",
                format!("{} {unit}", significant(asked, 3)),
                "as asked",
            ),
            fact(
                "one replica bears",
                format!(
                    "{} {unit}",
                    significant(evaluated.bears * evaluated.groups(), 3)
                ),
                "largest load at which every target holds",
            ),
            fact("spares", spare.to_string(), "as asked"),
        ],
    )
}

fn money(feasible: &Feasible<'_>) -> Derivation {
    let Some(rental) = &feasible.rental else {
        return fact(
            "cost",
            "unknown".into(),
            "no offer of this GPU under these limits",
        );
    };
    let price = rental
        .price
        .map_or_else(|| "unknown".to_string(), |price| price.to_string());
    let hour = feasible
        .figures
        .cost
        .per_hour
        .map_or_else(|| "unknown".to_string(), |hour| hour.to_string());
    Derivation::computed(
        "cost",
        hour,
        "instances × price",
        vec![
            fact(
                "instances",
                rental.instances.to_string(),
                "⌈replicas / replicas that an instance holds⌉",
            ),
            fact(
                &format!(
                    "{} {} {} {}",
                    rental.provider,
                    rental.instance,
                    rental.region,
                    rental.terms.name()
                ),
                price,
                &format!("{} {}", rental.source, rental.date),
            ),
            fact(
                "share of GPU time that prompts take",
                format!("{:.0} %", feasible.figures.prefill_share * 100.0),
                "splits the price between input and output tokens",
            ),
        ],
    )
}

fn power(feasible: &Feasible<'_>) -> Derivation {
    let gpu = feasible.evaluated.setup.device.gpu;
    match feasible.figures.power {
        None => fact(
            "power",
            "unknown".into(),
            "the catalogue has no power limit of this GPU",
        ),
        Some(watts) => Derivation::computed(
            "power of all GPUs",
            format!("{} W", significant(watts, 3)),
            "GPUs × (idle + (limit − idle) × min(1, 0.45 + 0.40 memory + 0.60 compute) × busy)",
            vec![fact(
                "power limit",
                gpu.power_limit.map_or_else(
                    || "unknown".into(),
                    |w| format!("{} W", significant(w.get(), 3)),
                ),
                &gpu.source,
            )],
        ),
    }
}
