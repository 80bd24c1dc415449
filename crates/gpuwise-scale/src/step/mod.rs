//! Services that share a fleet, step by step: replicas one by one, requests as such or as a flow.
//!
//! States change at steps of five seconds; within one, requests come and end whenever they do. Every request of the
//! demand is run: nothing is sampled. A replica takes so many at once as its rate and their mean length say, and each
//! goes to the next replica in turn that has room; none has, it waits, first come, first served. Where a service says
//! its [`Engines`], replicas batch continuously: what a step takes depends on all that runs in it. Where [`Machines`]
//! are given, replicas stand on them.

mod ask;
mod batch;
mod engine;
mod engines;
mod flow;
mod follow;
mod machines;
mod market;
mod outcome;
mod replicas;
mod requests;
mod running;
mod serving;

pub use engine::{Engine, Engines, Grid, Length};
pub use machines::{Lost, Machines, Place};
pub use outcome::{StepOutcome, VariantOutcome};
pub use requests::Lengths;

use crate::{
    arbitrate::{Ask, Grant},
    controller::variants::{MixController, MixDecision, MixSeen},
    fluid::Demand,
    variant::Variant,
};
use follow::Moment;
use market::Market;
use running::Running;

/// How requests are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Flow,
    Requests(Lengths),
}

/// A service, and who decides for it.
pub struct Tenant {
    pub name: String,
    pub demand: Demand,
    pub variants: Vec<Variant>,
    pub controller: Box<dyn MixController>,
    /// Seconds that a request may wait, and the share that is to be in time.
    pub wait: f64,
    pub objective: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// GPUs of pools that are its own where it asks for them.
    pub guaranteed: Vec<(String, u32)>,
    /// What it may cost in all; `None`: nobody counts.
    pub budget: Option<f64>,
    /// Its replicas as engines, where requests are run one by one; `None`: each is a rate and slots.
    pub engines: Option<Engines>,
}

/// The fleet, and how it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// GPUs of pools; of one that is not listed there are as many as are asked for.
    pub gpus: Vec<(String, u32)>,
    pub form: Form,
    pub seed: u64,
}

/// What was decided for a service, and of what.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    pub tenant: usize,
    pub seen: &'a MixSeen,
    /// GPUs that it may have, of each of its pools.
    pub gpus: &'a [u32],
    pub decision: &'a MixDecision,
    /// What it asked and got of each of its pools, where several services ask.
    pub shares: &'a [Shared],
}

/// What a service asked and got of a pool that others ask as well.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// The place of the pool in the fleet, and its name.
    pub place: usize,
    pub pool: String,
    /// GPUs of it; `None`: as many as are asked for.
    pub gpus: Option<u32>,
    pub ask: Ask,
    pub grant: Grant,
}

/// Seconds of a step.
const STEP: f64 = 5.0;

/// Runs services to the end of the shortest demand.
pub fn run(fleet: &Fleet, tenants: &mut [Tenant], told: impl FnMut(&Told<'_>)) -> Vec<StepOutcome> {
    run_on(fleet, None, tenants, told)
}

/// The same on machines: pools that have some are no longer numbers of GPUs.
pub fn run_on(
    fleet: &Fleet,
    machines: Option<&mut dyn Machines>,
    tenants: &mut [Tenant],
    mut told: impl FnMut(&Told<'_>),
) -> Vec<StepOutcome> {
    let services = tenants.iter().map(|one| one.variants.as_slice());
    let mut market = Market::new(services, &fleet.gpus, fleet.seed, machines);
    let lengths = tenants.iter().map(|one| one.demand.length());
    let steps = (lengths.fold(f64::INFINITY, f64::min) / STEP) as u64;
    let mut free_now = market.gpus();
    let each = tenants.iter_mut().enumerate();
    let mut all: Vec<Running<'_>> = each
        .map(|(at, tenant)| Running::new(tenant, at as u64, fleet, &mut market, &mut free_now))
        .collect();
    for step in 0..steps {
        let now = step as f64 * STEP;
        for (pool, share, gone) in market.lost(now) {
            for one in &mut all {
                one.out.interrupted += one.replicas.interrupt(pool, share, gone);
            }
        }
        let lost = market.places_lost(now);
        for one in &mut all {
            one.out.interrupted += one.replicas.lose_places(&lost);
            one.pass(now);
            one.replicas.leave(now, &mut market);
        }
        ask::ask(&mut all, now, &mut market, &mut told);
        for at in 0..all.len() {
            wake(&mut all, at, now, &mut market);
            if let Some(one) = all.get_mut(at) {
                one.step(now);
            }
        }
    }
    all.into_iter().map(|one| one.out).collect()
}

/// GPUs of each pool that nobody holds.
fn free(all: &[Running<'_>], market: &Market<'_>) -> Vec<u32> {
    let gpus = market.gpus();
    let mut held = vec![0; gpus.len()];
    for one in all {
        one.replicas.held(&one.tenant.variants, &mut held);
    }
    let each = gpus.iter().zip(held);
    each.map(|(gpus, held)| {
        if *gpus == u32::MAX {
            *gpus
        } else {
            gpus.saturating_sub(held)
        }
    })
    .collect()
}

/// Where requests wait and nothing serves, one replica is woken.
fn wake(all: &mut [Running<'_>], at: usize, now: f64, market: &mut Market<'_>) {
    let waits = all
        .get(at)
        .is_some_and(|one| one.queued() > 0.0 && one.replicas.is_at_none());
    if !waits {
        return;
    }
    let mut free = free(all, market);
    let outages = market.outages(now);
    if let Some(one) = all.get_mut(at) {
        let mut moment = Moment {
            now,
            variants: &one.tenant.variants,
            free: &mut free,
            market,
            out: &mut one.out,
        };
        one.replicas.wake_one(&mut moment, &outages);
    }
}
