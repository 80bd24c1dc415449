//! What is run in a replay: a policy on a series, or variants under ours.

use super::{
    decisions::Log,
    engines::Built,
    fleet::Filled,
    mixes::{Asked, Asking},
};
use crate::error::Problem;
use gpuwise_domain::scale::{ScaleMix, ScaleRun};
use gpuwise_scale::{
    compare::{Compared, Policy, compare, compare_by_request, sampled},
    fluid::{Demand, Service},
    step::{Form, Lengths},
};
use gpuwise_units::{Money, Nanoseconds};

/// Services of the file on one fleet, or each series by itself.
pub(super) fn mixed(
    filled: &Filled,
    demands: &[(String, Demand)],
    service: &Service,
    objective: f64,
    (step, seed): (bool, u64),
    engines: Option<&Built>,
    log: &mut Log,
) -> anyhow::Result<Vec<ScaleMix>> {
    let asked = Asked {
        variants: &filled.variants,
        gpus: &filled.file.pools,
        per_hour: filled.file.per_hour.map(|price| price.0.as_f64()),
        currency: filled.currency,
        form: form(step),
        engines,
        machines: (&filled.file.machines, &filled.file.losses),
        seed,
    };
    if filled.file.services.is_empty() {
        let each = demands.iter().map(|(name, demand)| Asking {
            name,
            demand,
            service,
            objective,
            guaranteed: Vec::new(),
            budget: None,
        });
        return Ok(each.flat_map(|asking| asked.rows(&asking, log)).collect());
    }
    let mut scaled = Vec::new();
    for one in &filled.file.services {
        let series = one.series.as_deref().unwrap_or(&one.name);
        let found = demands.iter().find(|(name, _)| name == series);
        let Some((_, demand)) = found.or(demands.first().filter(|_| demands.len() == 1)) else {
            let names: Vec<&str> = demands.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Problem::new(format!(
                "service {}: there is no series {series:?}",
                one.name
            ))
            .hint(format!("there are {}", names.join(", ")))
            .into());
        };
        let demand = demand.clone();
        scaled.push(match one.mean {
            Some(mean) => demand.scaled_to(mean),
            None => demand,
        });
    }
    let each = filled.file.services.iter().zip(&scaled);
    let asking: Vec<Asking<'_>> = each
        .map(|(one, demand)| Asking {
            name: &one.name,
            demand,
            service,
            objective: one.objective.unwrap_or(objective),
            guaranteed: one.guaranteed.clone(),
            budget: one.budget.map(Money::as_f64),
        })
        .collect();
    Ok(asked.shared(&asking, log))
}

const fn form(step: bool) -> Form {
    if step {
        Form::Requests(Lengths::Exponential)
    } else {
        Form::Flow
    }
}

pub(super) fn one(
    name: &str,
    policy: Policy,
    demand: &Demand,
    service: &Service,
    objective: f64,
    (step, seed): (bool, u64),
) -> ScaleRun {
    let found = compare(policy, demand, service, objective, seed);
    let out = found.outcome;
    let run = ScaleRun {
        series: name.to_owned(),
        policy: policy.name(),
        start: Nanoseconds((service.start * 1e9) as u64),
        objective,
        kept: out.kept(),
        target: found.target,
        requests: out.requests,
        serving_hours: out.busy / 3600.0,
        warm_hours: out.warm / 3600.0,
        bound_hours: out.bound / 3600.0,
        ratio: out.ratio(),
        changes: out.changes,
        samples: sampled(policy, demand, service, objective, &found, seed),
    };
    if !step {
        return run;
    }
    let (target, out) = compare_by_request(policy, demand, service, objective, seed);
    let chosen = Compared { target, ..found };
    let part = out.variants.first().copied().unwrap_or_default();
    ScaleRun {
        kept: out.kept(),
        requests: out.requests,
        serving_hours: part.serving,
        warm_hours: part.warm,
        ratio: out.cost / run.bound_hours.max(f64::MIN_POSITIVE),
        changes: out.changes,
        target,
        samples: sampled(policy, demand, service, objective, &chosen, seed),
        ..run
    }
}
