//! Services that give their GPUs back while nobody asks, and get them again.

use crate::Broker;
use gpuwise_domain::placement::{Action, Event, JobId, Plan};
use gpuwise_sched::world::Phase;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::BrokerEvent,
    live::{EventDocument, NumberedPlanDocument},
};

impl Broker {
    /// A lease that is idle gives its GPUs back until it is woken; nothing where it has none, or is on its way.
    pub fn park(&self, now: Nanoseconds, number: u32) -> Vec<BrokerEvent> {
        let job = JobId(number);
        let open = self
            .lease(number)
            .filter(|lease| lease.draining.is_none() && lease.over.is_none());
        let state = self.world.job(job).filter(|_| open.is_some());
        let rests = state.is_some_and(|state| {
            matches!(state.phase, Phase::Running { .. })
                && !state.stopping
                && state.rare.leaving.is_empty()
        });
        if !rests {
            return Vec::new();
        }
        let plan = Plan {
            number: self.world.target() + 1,
            parent: self.world.target(),
            made: now,
            actions: vec![Action::Reclaim { job }],
        };
        vec![BrokerEvent::Planned {
            plan: NumberedPlanDocument::of(&plan),
            placed: Vec::new(),
        }]
    }

    /// A lease whose GPUs were taken while it was idle wants them back; nothing where it has them, or waits
    /// for them already.
    pub fn wake(&self, number: u32) -> Vec<BrokerEvent> {
        let job = JobId(number);
        let state = self.world.job(job);
        let rests = state.is_some_and(|state| {
            matches!(state.phase, Phase::Reclaimed { .. }) && state.rare.wanted.is_none()
        });
        let wanted = EventDocument::of(&Event::Wanted { job });
        let event = BrokerEvent::Fleet { event: wanted };
        rests.then_some(event).into_iter().collect()
    }
}
