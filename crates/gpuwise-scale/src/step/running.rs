//! A service while it runs.

use super::{
    Fleet, Form, STEP, Tenant,
    engines::Batches,
    flow::Flow,
    market::Market,
    outcome::{StepOutcome, VariantOutcome},
    replicas::{Replicas, State},
    requests::Requests,
    serving::Serving,
};
use crate::{controller::variants::MixSeen, fluid::negative_binomial};
use gpuwise_units::{Nanoseconds, RandomStream};

const HOUR: f64 = 3600.0;

pub(super) struct Running<'a> {
    pub(super) tenant: &'a mut Tenant,
    pub(super) replicas: Replicas,
    serving: Serving,
    arrivals: RandomStream,
    times: RandomStream,
    /// Requests since it was last asked, and when it is next.
    arrived: f64,
    pub(super) asks: f64,
    pub(super) out: StepOutcome,
}

impl<'a> Running<'a> {
    pub(super) fn new(
        tenant: &'a mut Tenant,
        at: u64,
        fleet: &Fleet,
        market: &mut Market<'_>,
        free: &mut [u32],
    ) -> Self {
        let variants = &tenant.variants;
        let pools = variants.iter().map(|one| market.place(&one.pool));
        let by_request = matches!(fleet.form, Form::Requests(_));
        let mut replicas = Replicas::new(variants, pools.collect(), by_request);
        // The middle of the last replica: no more of them by a rounding error.
        let all = tenant.controller.begins().zip(variants.first());
        let rate = all.map_or_else(
            || tenant.demand.at(0.0),
            |(count, first)| (f64::from(count) - 0.5) * first.rate,
        );
        replicas.begin(variants, rate, free, market);
        Self {
            serving: match (fleet.form, &tenant.engines) {
                (Form::Flow, _) => Serving::Flow(Flow::default()),
                (Form::Requests(_), Some(engines)) => {
                    let stream = RandomStream::new(fleet.seed, "tokens", at);
                    let period = tenant.demand.period;
                    Serving::Engines(Box::new(Batches::new(engines, period, stream)))
                }
                (Form::Requests(lengths), None) => {
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

    pub(super) fn queued(&self) -> f64 {
        self.serving.queued()
    }

    pub(super) fn pass(&mut self, now: f64) {
        let Self {
            replicas,
            serving,
            out,
            ..
        } = self;
        replicas.pass(now, |lost| serving.lose(lost, out));
    }

    /// Seconds until each replica has none of its requests left.
    pub(super) fn frees(&self, now: f64) -> Vec<f64> {
        self.serving.frees(now, self.tenant, &self.replicas)
    }

    /// What a controller sees.
    pub(super) fn seen(&mut self, now: f64, frees: &[f64], outages: &[bool]) -> MixSeen {
        let mut variants = self.replicas.seen(&self.tenant.variants, frees);
        for (one, pool) in variants.iter_mut().zip(&self.replicas.pools) {
            one.outage = outages.get(*pool).copied().unwrap_or(false);
        }
        MixSeen {
            now: Nanoseconds((now * 1e9) as u64),
            arrived: Some(std::mem::take(&mut self.arrived)),
            queued: self.queued(),
            running: self.serving.running(),
            requests: self.out.requests,
            late: self.out.late,
            tokens: self.serving.tokens(),
            cache: self.serving.cache(&self.replicas),
            variants,
        }
    }

    /// Five seconds: what comes, what is served, and what is held for it.
    pub(super) fn step(&mut self, now: f64) {
        let mean = self.tenant.demand.at(now + STEP / 2.0) * STEP;
        let came = negative_binomial(&mut self.arrivals, mean, self.tenant.dispersion);
        self.arrived += came;
        let count = if self.serving.is_flow() {
            0
        } else {
            came as u64
        };
        let mut times: Vec<f64> = (0..count)
            .map(|_| now + self.times.uniform() * STEP)
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        self.serving.run(
            now,
            (came, &times),
            self.tenant,
            &mut self.replicas,
            &mut self.out,
        );
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
