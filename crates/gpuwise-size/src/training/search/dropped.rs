//! What is not among the plans, and why.

use super::{
    Cluster, Physics, Shape,
    best::{self, Best, Outcome, SearchResult},
    flags::chosen,
    market::{self, Candidate},
    plan::plan,
    refuse::refusals,
    request::{Machines, Market, TrainRequest},
};
use crate::{
    memory::visible_memory,
    search::{self, Failure},
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    deployment::{Dropped, Test},
    fix::{Fix, Flag},
    gpu::{Device, Gpu},
    offer::{Offer, Terms},
    reason::Reason,
    training::TrainingSetup,
    training_plan::TrainingPlan,
};
use gpuwise_units::Bytes;

/// Times of the GPUs that are reckoned to end a run in time: what is exchanged grows with them.
const MORE: [f64; 6] = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0];
/// GPUs of a job at most.
const MOST_GPUS: u64 = 65_536;
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

/// What makes a setup fit that does not: tried, not reckoned.
pub(super) fn fitting(
    request: &TrainRequest<'_>,
    physics: &dyn Physics,
    cluster: &Cluster<'_>,
    setup: &TrainingSetup,
) -> Vec<Fix> {
    let shape = Shape::of(request.architecture);
    // Other numbers of what is offered are candidates of their own.
    let given = matches!(request.machines, Machines::Given(_));
    let fits = |changed: &TrainingSetup| {
        let (before, after) = (setup.layout.gpus(), changed.layout.gpus());
        if before != after && !given {
            return false;
        }
        let mut place = *cluster;
        if before != after {
            let gpus = cluster.gpus - before + after;
            place = market::cluster(request.catalogue, cluster.gpu, gpus);
            place.network = cluster.network.or(place.network);
        }
        let choices = chosen(&request.choices, setup, changed);
        refusals(&shape, &choices, &place).is_empty()
            && best::best(&shape, &choices, &place, physics).best.is_some()
    };
    let all = physics.fixes(setup, cluster).into_iter();
    let mut out: Vec<Fix> = all
        .filter(|(_, changed)| fits(changed))
        .map(|(fix, _)| fix)
        .collect();
    if given {
        out.extend(larger(request, physics, cluster));
    }
    out
}

/// As many of the cheapest GPU with more memory on which it fits: tried, not reckoned.
fn larger(request: &TrainRequest<'_>, physics: &dyn Physics, cluster: &Cluster<'_>) -> Option<Fix> {
    let market = search::Market {
        catalogue: request.catalogue,
        providers: &[],
        regions: &[],
        owned: Vec::new(),
        terms: Terms::OnDemand,
    };
    let memory = |gpu: &Gpu| visible_memory(&Device::whole(gpu)).0;
    let has = memory(cluster.gpu);
    let mut all: Vec<(f64, &Gpu)> = Vec::new();
    for gpu in request.catalogue.gpus.iter().filter(|gpu| !gpu.announced) {
        let each = |offer: &&Offer| {
            let price = offer.price(market.terms)?;
            Some(price.0.as_f64() / f64::from(offer.gpus()))
        };
        let offers = market.offers(&gpu.name);
        let price = offers.first().and_then(each).filter(|_| memory(gpu) > has);
        all.extend(price.map(|price| (price, gpu)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shape = Shape::of(request.architecture);
    all.into_iter().find_map(|(_, gpu)| {
        let place = market::cluster(request.catalogue, gpu, cluster.gpus);
        let best = best::best(&shape, &request.choices, &place, physics).best?;
        Some(Fix::Flags {
            flags: alloc::vec![Flag::gpus(cluster.gpus, &gpu.name)],
            gives: Some(best.setup.placement_words()),
        })
    })
}

/// A plan that is late or too dear.
pub(super) fn over_limits(request: &TrainRequest<'_>, plan: &TrainingPlan) -> Option<Failure> {
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
    let cost = run.cost?.value;
    let over = cost.currency == budget.currency && cost.micros > budget.micros;
    let ratio = cost.micros as f64 / budget.micros.max(1) as f64;
    over.then(|| {
        let fix = Flag::money("--budget", cost, "");
        Failure::new(Test::Limits, Reason::RunCost { cost, budget }, ratio).fixed_by(Fix::from(fix))
    })
}

/// How many of a GPU end a run in time that is late on fewer: tried from what is reckoned on.
pub(super) fn in_time(
    request: &TrainRequest<'_>,
    physics: &dyn Physics,
    cluster: &Cluster<'_>,
    least: f64,
) -> Option<Fix> {
    match &request.machines {
        Machines::Given(given) => {
            let host = u64::from(cluster.per_host.max(1));
            let counts = MORE.iter().map(|times| {
                let gpus = libm::ceil(least * times) as u64;
                match gpus {
                    gpus if gpus > host => gpus.next_multiple_of(host),
                    gpus => gpus.next_power_of_two(),
                }
            });
            let mut counts = counts.filter(|gpus| *gpus <= MOST_GPUS);
            let found = counts.find(|gpus| {
                let mut place = market::cluster(request.catalogue, cluster.gpu, *gpus);
                place.network = given.network.or(place.network);
                ends_in_time(request, physics, &place)
            })?;
            Some(Flag::gpus(found, &cluster.gpu.name).into())
        }
        Machines::Offered(market) => {
            let wider = Market {
                gpus: alloc::vec![cluster.gpu],
                most: MOST_GPUS,
                ..market.clone()
            };
            let asked = TrainRequest {
                machines: Machines::Offered(wider.clone()),
                ..request.clone()
            };
            let all = market::candidates(&asked, &wider).into_iter();
            let more = all
                .map(|one| one.cluster)
                .filter(|place| place.gpus > market.most && place.gpus as f64 >= least);
            let found = more
                .take(MORE.len())
                .find(|place| ends_in_time(request, physics, place))?;
            Some(Fix::flag("--max-gpus", found.gpus))
        }
    }
}

fn ends_in_time(request: &TrainRequest<'_>, physics: &dyn Physics, cluster: &Cluster<'_>) -> bool {
    let shape = Shape::of(request.architecture);
    if !refusals(&shape, &request.choices, cluster).is_empty() {
        return false;
    }
    let candidate = Candidate {
        cluster: *cluster,
        rental: None,
    };
    let found = best::best(&shape, &request.choices, cluster, physics);
    let plan = found
        .best
        .map(|best| plan(request, physics, &candidate, &best));
    plan.is_some_and(|plan| {
        let late = over_limits(request, &plan).is_some_and(|over| over.test == Test::Deadline);
        !late
    })
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
