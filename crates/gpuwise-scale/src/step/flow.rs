//! Requests as a flow: a queue that grows by what comes and shrinks by what replicas serve.

use super::{
    outcome::StepOutcome,
    replicas::{Replicas, State},
};
use crate::{fluid::share_beyond, variant::Variant};

#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) queue: f64,
    pub(super) running: f64,
}

impl Flow {
    pub(super) fn run(
        &mut self,
        seconds: f64,
        came: f64,
        wait: f64,
        variants: &[Variant],
        replicas: &Replicas,
        out: &mut StepOutcome,
    ) {
        let ready = replicas.all.iter().filter(|one| one.state == State::Ready);
        let of = ready.filter_map(|one| variants.get(one.variant));
        let (serves, service) = of.fold((0.0, 0.0), |(serves, service), one| {
            (serves + one.rate, service + one.rate * one.service)
        });
        let waits = |queue: f64| {
            if serves > 0.0 {
                queue / serves
            } else if queue > 0.0 {
                f64::INFINITY
            } else {
                0.0
            }
        };
        if serves <= 0.0 {
            out.held += came;
        }
        let after = (self.queue + came - serves * seconds).max(0.0);
        out.requests += came;
        out.late += came * share_beyond(waits(self.queue), waits(after), wait);
        let done = self.queue + came - after;
        self.running = if serves > 0.0 {
            done / seconds * service / serves
        } else {
            0.0
        };
        self.queue = after;
    }
}
