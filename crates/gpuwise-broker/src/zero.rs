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
        self.park_all(now, &[number])
    }

    /// The same of several, in one plan: a second one made from the same state could not be carried out.
    pub(crate) fn park_all(&self, now: Nanoseconds, numbers: &[u32]) -> Vec<BrokerEvent> {
        let rest = numbers.iter().filter(|number| self.may_rest(**number));
        let actions: Vec<Action> = rest
            .map(|number| Action::Reclaim {
                job: JobId(*number),
            })
            .collect();
        if actions.is_empty() {
            return Vec::new();
        }
        let plan = Plan {
            number: self.world.target() + 1,
            parent: self.world.target(),
            made: now,
            actions,
        };
        vec![BrokerEvent::Planned {
            plan: NumberedPlanDocument::of(&plan),
            placed: Vec::new(),
        }]
    }

    /// Whether a lease runs, and is not on its way.
    pub(crate) fn may_rest(&self, number: u32) -> bool {
        let open = self
            .lease(number)
            .filter(|lease| lease.draining.is_none() && lease.over.is_none());
        let state = self.world.job(JobId(number)).filter(|_| open.is_some());
        state.is_some_and(|state| {
            matches!(state.phase, Phase::Running { .. })
                && !state.stopping
                && state.rare.leaving.is_empty()
        })
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
