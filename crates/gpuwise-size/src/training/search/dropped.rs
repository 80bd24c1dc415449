//! What is not among the plans, and why.

use super::{
    Cluster, Physics,
    best::{self, Best, Outcome, SearchResult},
    request::{Machines, TrainRequest},
};
use crate::search::Failure;
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    deployment::{Dropped, Rental, Test},
    fix::{Fix, Flag},
    reason::Reason,
    training_plan::TrainingPlan,
};
use gpuwise_units::Bytes;

/// Of what cannot be judged, the distance: beyond what nearly fits.
const UNJUDGED: f64 = 3.0;

/// Machines in a clause.
pub(super) fn label(cluster: &Cluster<'_>) -> String {
    format!("{} × {}", cluster.gpus, cluster.gpu.name)
}

/// Nothing fits, or nothing can be judged.
pub(super) fn no_fit(
    physics: &dyn Physics,
    cluster: &Cluster<'_>,
    found: &SearchResult,
) -> Vec<Dropped> {
    let gpu = &cluster.gpu.name;
    let mut out = Vec::new();
    if let Some((setup, ratio)) = found.nearest() {
        let usable = physics.usable(cluster);
        let what = Reason::TrainingMemory {
            needed: Bytes::from_f64(usable.as_f64() * ratio),
            usable,
            micro_batch: setup.micro_batch,
            recompute: setup.recompute,
        };
        let failure = Failure::new(Test::Memory, what, ratio);
        let name = format!("{}, {}", label(cluster), setup.placement_words());
        out.push(failure.dropped(name, gpu));
    }
    out.extend(found.refused.iter().map(|why| {
        Failure::new(Test::Support, Reason::Unsupported(why.clone()), UNJUDGED)
            .dropped(label(cluster), gpu)
    }));
    out
}

/// A plan that is late, too dear, or not rented out where it may be. What has no price is within no budget; for hosts of
/// one's own nothing more is paid.
pub(super) fn over_limits(request: &TrainRequest<'_>, plan: &TrainingPlan) -> Option<Failure> {
    let priced = || Fix::OwnPrice {
        gpu: plan.gpu.clone(),
        gpus: u32::try_from(plan.gpus).unwrap_or(u32::MAX),
        at_most: None,
    };
    let over = |what, ratio, fix| Some(Failure::new(Test::Limits, what, ratio).fixed_by(fix));
    if let Machines::Offered(market) = &request.machines
        && plan.rental.is_none()
    {
        let places = market.providers.iter().chain(&market.regions);
        let places: Vec<String> = places.cloned().collect();
        if !places.is_empty() {
            return over(Reason::NotOffered(places), 1.0, priced());
        }
    }
    let run = plan.run.as_ref()?;
    let seconds = run.total.value;
    if let Some(within) = request.job.within
        && seconds > within
    {
        let what = Reason::Late {
            run: seconds,
            within,
        };
        return Some(Failure::new(Test::Deadline, what, seconds / within));
    }
    let budget = request.job.budget?;
    if plan.rental.as_ref().is_some_and(Rental::is_owned) {
        return None;
    }
    let Some(cost) = run.cost.map(|cost| cost.value) else {
        return over(Reason::UnknownRunCost { budget }, 1.0, priced());
    };
    if cost.currency != budget.currency || cost.micros <= budget.micros {
        return None;
    }
    let ratio = cost.micros as f64 / budget.micros.max(1) as f64;
    let fix = Fix::from(Flag::money("--budget", cost, ""));
    over(Reason::RunCost { cost, budget }, ratio, fix)
}

/// What became of the other kinds of layout on the same machines.
pub(super) fn alternatives(
    cluster: &Cluster<'_>,
    found: &SearchResult,
    best: &Best,
) -> Vec<Dropped> {
    let chosen = best::kind(&best.setup);
    let fastest = best.step.step.value;
    let others = found.kinds.iter().filter(|(kind, _)| **kind != chosen);
    others
        .map(|(_, outcome)| {
            let (setup, test, what, ratio) = match outcome {
                Outcome::Fits(setup, seconds) => {
                    let ratio = seconds / fastest;
                    (setup, Test::Dominated, Reason::Slower { ratio }, ratio)
                }
                Outcome::Tight(setup, ratio) => {
                    (setup, Test::Memory, overfull(*ratio, true), *ratio)
                }
                Outcome::Short(setup, ratio) => {
                    (setup, Test::Memory, overfull(*ratio, false), *ratio)
                }
            };
            Failure::new(test, what, ratio).dropped(setup.placement_words(), &cluster.gpu.name)
        })
        .collect()
}

const fn overfull(ratio: f64, range: bool) -> Reason {
    Reason::Overfull { ratio, range }
}
