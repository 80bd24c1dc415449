//! What each way of scaling a deployment costs, and what each hour of the day came to.

use super::variants::monthly;
use crate::progress;
use gpuwise_domain::scale::{ScaleCost, ScaleHour, ScaleSample};
use gpuwise_scale::{
    compare::{Policy, compare, sampled},
    fluid::{Demand, Outcome, Service},
};
use gpuwise_units::HourlyPrice;

/// Policies that the plan stands beside.
const BESIDE: [Policy; 3] = [Policy::Static, Policy::Hpa, Policy::Gpuwise];

/// What each way costs, and what ours had at each time.
pub(super) fn costs(
    demand: &Demand,
    service: &Service,
    objective: f64,
    price: Option<HourlyPrice>,
    seed: u64,
) -> (Vec<ScaleCost>, Vec<ScaleSample>) {
    let mut costs = Vec::new();
    let mut samples = Vec::new();
    for policy in BESIDE {
        progress::doing(&format!("replaying {}", policy.name()));
        let found = compare(policy, demand, service, objective, seed);
        costs.push(cost(
            policy.name(),
            &found.outcome,
            objective,
            price,
            demand,
        ));
        if policy == Policy::Gpuwise {
            costs.push(bound(&found.outcome, price, demand));
            samples = sampled(policy, demand, service, objective, &found, seed);
        }
    }
    (costs, samples)
}

/// Requests a second over replicas that serve, in the mean.
pub(super) fn aimed(samples: &[ScaleSample]) -> Option<f64> {
    let serving: f64 = samples.iter().map(|one| f64::from(one.serving)).sum();
    let rate: f64 = samples.iter().map(|one| one.rate).sum();
    (serving > 0.0).then(|| rate / serving)
}

fn cost(
    policy: &'static str,
    out: &Outcome,
    objective: f64,
    price: Option<HourlyPrice>,
    demand: &Demand,
) -> ScaleCost {
    let replicas = out.cost / demand.length();
    ScaleCost {
        policy,
        kept: out.kept(),
        keeps: out.kept() >= objective,
        replicas,
        ratio: out.ratio(),
        changes: out.changes,
        per_month: price.map(|price| monthly(price, replicas)),
    }
}

/// As many as the rate needs at every moment: nobody can be cheaper, and nobody can know it.
fn bound(out: &Outcome, price: Option<HourlyPrice>, demand: &Demand) -> ScaleCost {
    let replicas = out.bound / demand.length();
    ScaleCost {
        policy: "bound",
        kept: 1.0,
        keeps: true,
        replicas,
        ratio: 1.0,
        changes: 0,
        per_month: price.map(|price| monthly(price, replicas)),
    }
}

/// What each hour of the day came to.
pub(super) fn hours(samples: &[ScaleSample], start_seconds: f64) -> Vec<ScaleHour> {
    let hour_of = |one: &ScaleSample| {
        let second = start_seconds + one.at.seconds().get();
        (second / 3600.0).rem_euclid(24.0) as u8
    };
    let each = (0..24_u8).filter_map(|hour| {
        let of: Vec<&ScaleSample> = samples.iter().filter(|one| hour_of(one) == hour).collect();
        let count = of.len() as f64;
        let mean = |value: &dyn Fn(&ScaleSample) -> f64| {
            of.iter().map(|one| value(one)).sum::<f64>() / count
        };
        (!of.is_empty()).then(|| ScaleHour {
            hour,
            rate: mean(&|one| one.rate),
            serving: mean(&|one| f64::from(one.serving)),
            serving_most: of.iter().map(|one| one.serving).max().unwrap_or(0),
            warm: mean(&|one| f64::from(one.warm)),
        })
    });
    each.collect()
}
