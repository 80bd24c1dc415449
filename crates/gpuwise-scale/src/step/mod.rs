//! Services that share a fleet, step by step: replicas one by one, requests as such or as a flow.
//!
//! States change at steps of five seconds; within one, requests come and end whenever they do. Every request of the
//! demand is run: nothing is sampled. A replica takes so many at once as its rate and their mean length say, and each
//! goes to the next replica in turn that has room; none has, it waits, first come, first served. Batches that slow one
//! another down are not in it: that is what [`Lengths`] and the rate stand for.

mod ask;
mod flow;
mod follow;
mod market;
mod outcome;
mod replicas;
mod requests;

pub use outcome::{StepOutcome, VariantOutcome};
pub use requests::Lengths;

use crate::{
    arbitrate::{Ask, Grant},
    controller::variants::{MixController, MixDecision, MixSeen},
    fluid::{Demand, negative_binomial},
    variant::Variant,
};
use flow::Flow;
use follow::Moment;
use gpuwise_units::{Nanoseconds, RandomStream};
use market::Market;
use replicas::{Replicas, State};
use requests::Requests;

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
const HOUR: f64 = 3600.0;

enum Serving {
    Flow(Flow),
    Requests(Box<Requests>),
}

/// A service while it runs.
struct Running<'a> {
    tenant: &'a mut Tenant,
    replicas: Replicas,
    serving: Serving,
    arrivals: RandomStream,
    times: RandomStream,
    /// Requests since it was last asked, and when it is next.
    arrived: f64,
    asks: f64,
    out: StepOutcome,
}

/// Runs services to the end of the shortest demand.
pub fn run(
    fleet: &Fleet,
    tenants: &mut [Tenant],
    mut told: impl FnMut(&Told<'_>),
) -> Vec<StepOutcome> {
    let services = tenants.iter().map(|one| one.variants.as_slice());
    let mut market = Market::new(services, &fleet.gpus, fleet.seed);
    let lengths = tenants.iter().map(|one| one.demand.length());
    let steps = (lengths.fold(f64::INFINITY, f64::min) / STEP) as u64;
    let mut free_now = market.gpus();
    let each = tenants.iter_mut().enumerate();
    let mut all: Vec<Running<'_>> = each
        .map(|(at, tenant)| Running::new(tenant, at as u64, fleet, &market, &mut free_now))
        .collect();
    for step in 0..steps {
        let now = step as f64 * STEP;
        for (pool, share, gone) in market.lost(now) {
            for one in &mut all {
                one.out.interrupted += one.replicas.interrupt(pool, share, gone);
            }
        }
        for one in &mut all {
            one.pass(now);
        }
        ask::ask(&mut all, now, &market, &mut told);
        for at in 0..all.len() {
            wake(&mut all, at, now, &market);
            if let Some(one) = all.get_mut(at) {
                one.step(now);
            }
        }
    }
    all.into_iter().map(|one| one.out).collect()
}

/// GPUs of each pool that nobody holds.
fn free(all: &[Running<'_>], market: &Market) -> Vec<u32> {
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
fn wake(all: &mut [Running<'_>], at: usize, now: f64, market: &Market) {
    let waits = all
        .get(at)
        .is_some_and(|one| one.queued() > 0.0 && one.replicas.is_at_none());
    if !waits {
        return;
    }
    let mut free = free(all, market);
    if let Some(one) = all.get_mut(at) {
        let mut moment = Moment {
            now,
            variants: &one.tenant.variants,
            free: &mut free,
            out: &mut one.out,
        };
        one.replicas.wake_one(&mut moment, &market.outages(now));
    }
}

impl<'a> Running<'a> {
    fn new(
        tenant: &'a mut Tenant,
        at: u64,
        fleet: &Fleet,
        market: &Market,
        free: &mut [u32],
    ) -> Self {
        let variants = &tenant.variants;
        let pools = variants.iter().map(|one| market.place(&one.pool));
        let by_request = matches!(fleet.form, Form::Requests(_));
        let mut replicas = Replicas::new(variants, pools.collect(), by_request);
        replicas.begin(variants, tenant.demand.at(0.0), free);
        Self {
            serving: match fleet.form {
                Form::Flow => Serving::Flow(Flow::default()),
                Form::Requests(lengths) => {
                    let stream = RandomStream::new(fleet.seed, "lengths", at);
                    Serving::Requests(Box::new(Requests::new(variants, lengths, stream)))
                }
            },
            replicas,
            arrivals: RandomStream::new(fleet.seed, "arrivals", at),
            times: RandomStream::new(fleet.seed, "times", at),
            arrived: 0.0,
            asks: tenant.controller.period().seconds().get(),
            out: StepOutcome {
                variants: vec![VariantOutcome::default(); variants.len()],
                ..StepOutcome::default()
            },
            tenant,
        }
    }

    fn queued(&self) -> f64 {
        match &self.serving {
            Serving::Flow(flow) => flow.queue,
            Serving::Requests(requests) => requests.queued(),
        }
    }

    fn pass(&mut self, now: f64) {
        let Self {
            replicas,
            serving,
            out,
            ..
        } = self;
        replicas.pass(now, |lost| {
            if let Serving::Requests(requests) = serving {
                requests.lose(lost, out);
            }
        });
    }

    /// Seconds until each replica has none of its requests left.
    fn frees(&self, now: f64) -> Vec<f64> {
        match &self.serving {
            Serving::Requests(requests) => requests.frees(now, self.replicas.all.len()),
            Serving::Flow(_) => {
                let each = self.replicas.all.iter();
                let of = each.map(|one| self.tenant.variants.get(one.variant));
                of.map(|of| of.map_or(0.0, |of| of.service)).collect()
            }
        }
    }

    /// What a controller sees.
    fn seen(&mut self, now: f64, frees: &[f64], outages: &[bool]) -> MixSeen {
        let mut variants = self.replicas.seen(&self.tenant.variants, frees);
        for (one, pool) in variants.iter_mut().zip(&self.replicas.pools) {
            one.outage = outages.get(*pool).copied().unwrap_or(false);
        }
        MixSeen {
            now: Nanoseconds((now * 1e9) as u64),
            arrived: Some(std::mem::take(&mut self.arrived)),
            queued: self.queued(),
            running: match &self.serving {
                Serving::Flow(flow) => flow.running,
                Serving::Requests(requests) => requests.running(),
            },
            requests: self.out.requests,
            late: self.out.late,
            variants,
        }
    }

    /// Five seconds: what comes, what is served, and what is held for it.
    fn step(&mut self, now: f64) {
        let mean = self.tenant.demand.at(now + STEP / 2.0) * STEP;
        let came = negative_binomial(&mut self.arrivals, mean, self.tenant.dispersion);
        self.arrived += came;
        let (wait, variants) = (self.tenant.wait, &self.tenant.variants);
        match &mut self.serving {
            Serving::Flow(flow) => {
                flow.run(STEP, came, wait, variants, &self.replicas, &mut self.out);
            }
            Serving::Requests(requests) => {
                let mut times: Vec<f64> = (0..came as u64)
                    .map(|_| now + self.times.uniform() * STEP)
                    .collect();
                times.sort_unstable_by(f64::total_cmp);
                requests.run(
                    (now, now + STEP),
                    &times,
                    wait,
                    &mut self.replicas,
                    &mut self.out,
                );
            }
        }
        self.pay(now, mean);
    }

    fn pay(&mut self, now: f64, requests: f64) {
        let time = Nanoseconds((now * 1e9) as u64);
        let variants = &self.tenant.variants;
        let prices: Vec<f64> = variants.iter().map(|one| one.price(time)).collect();
        for replica in &self.replicas.all {
            let at = replica.variant;
            let (Some(of), Some(price)) = (self.out.variants.get_mut(at), prices.get(at)) else {
                continue;
            };
            let share = match replica.state {
                State::Gone => continue,
                State::Warm => variants
                    .get(at)
                    .and_then(|one| one.warm_cost)
                    .unwrap_or(1.0),
                _ => 1.0,
            };
            let hours = STEP / HOUR;
            if replica.state == State::Warm {
                of.warm += hours;
            } else {
                of.serving += hours;
            }
            of.cost += price * share * hours;
            self.out.cost += price * share * hours;
        }
        let each = variants.iter().zip(&prices);
        let least = each
            .map(|(one, price)| price / (one.rate * HOUR))
            .fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            self.out.bound += requests * least;
        }
    }
}
