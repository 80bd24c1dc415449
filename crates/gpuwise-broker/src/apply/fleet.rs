//! Plans, and what becomes of them on the fleet.

use crate::{Broken, Broker, Lease, executor::Work};
use gpuwise_domain::placement::{Action, Assignment, Event, JobId, Plan};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::PlacedReason;

impl Broker {
    pub(super) fn planned(
        &mut self,
        at: Nanoseconds,
        plan: &Plan,
        placed: &[PlacedReason],
    ) -> Result<(), Broken> {
        self.raised_planned(at, plan);
        self.world.accept(plan)?;
        for action in &plan.actions {
            if let Some(attempt) = self.world.attempt_of(action) {
                self.order(Work::Act {
                    action: action.clone(),
                    attempt,
                });
            }
            self.follow(at, action);
        }
        for reason in placed {
            if let Some(lease) = self.leases.get_mut(&reason.lease) {
                lease.candidates = reason.candidates;
                lease.weighed.clone_from(&reason.weighed);
            }
        }
        Ok(())
    }

    pub(crate) fn fleet_event(&mut self, at: Nanoseconds, event: Event) -> Result<(), Broken> {
        let about = match &event {
            Event::Measured { job, .. } | Event::Ended { job, .. } | Event::Wanted { job } => {
                Some(job.0)
            }
            _ => None,
        };
        let answered = match &event {
            Event::Done { action, .. } | Event::Failed { action, .. } => Some(action.clone()),
            _ => None,
        };
        let seated = match &event {
            Event::Failed { action, .. } => self.starting_by(action),
            _ => Vec::new(),
        };
        let why = match &event {
            Event::Failed { failure, .. } => failure.what.clone(),
            _ => String::new(),
        };
        let joined = match &event {
            Event::NodeJoined { gpus, .. } => gpus.as_slice(),
            Event::GpuJoined(gpu) => std::slice::from_ref(gpu),
            _ => &[],
        };
        self.present = (joined.iter()).fold(self.present, |kinds, gpu| kinds.with(gpu.kind));
        let event = self.under_cordon(event);
        if let Event::ReservationEnded { name } = &event {
            self.warm_kept.remove(name);
        }
        if let Event::Wanted { job } = &event {
            self.scaling_wanted(at, job.0);
        }
        self.time(at, &event);
        self.happen(at, event)?;
        for number in self.unseated(seated) {
            if let Some(lease) = self.leases.get_mut(&number) {
                lease.failed_starts += 1;
                lease.failed_because = Some(why.clone());
            }
            // An action about a device names no lease, and those who lost their places by it look for others.
            self.seek(number);
        }
        if let Some(action) = answered {
            let same =
                |work: &Work| matches!(work, Work::Act { action: one, .. } if *one == action);
            self.orders.retain(|_, work| !same(work));
            self.follow(at, &action);
        } else {
            // Somebody may have lost his place, and be told to stop where it is left.
            self.orders_that_follow();
            for lease in self.grants.leases() {
                self.meter(at, lease);
            }
            match about {
                Some(lease) => self.seek(lease),
                None => self
                    .open
                    .clone()
                    .into_iter()
                    .for_each(|lease| self.seek(lease)),
            }
        }
        self.drop_orders();
        self.meter_coming(at);
        Ok(())
    }

    /// Leases that an action is to start, or that are to start on the GPU that it is about.
    fn starting_by(&self, action: &Action) -> Vec<u32> {
        let gpu = match action {
            Action::Place { job, .. } => return vec![job.0],
            Action::SetMig { gpu, .. }
            | Action::CreateInstance { gpu, .. }
            | Action::DestroyInstance { gpu, .. }
            | Action::Attach { gpu, .. } => *gpu,
            _ => return Vec::new(),
        };
        let on = |assignment: &Assignment| assignment.gpus.iter().any(|share| share.gpu == gpu);
        let starts = |lease: &&Lease| {
            let state = self.world.job(lease.job());
            state.is_some_and(|state| state.start().is_some() && state.assignments.iter().any(on))
        };
        self.open()
            .filter(starts)
            .map(|lease| lease.number)
            .collect()
    }

    /// Those of them that have lost their places.
    fn unseated(&self, leases: Vec<u32>) -> Vec<u32> {
        let has_none = |number: &u32| {
            let state = self.world.job(JobId(*number));
            state.is_some_and(|state| state.assignments.is_empty())
        };
        leases.into_iter().filter(has_none).collect()
    }

    /// Leases that would lose the places where they start if an action failed.
    pub(crate) fn would_lose(&self, now: Nanoseconds, event: &Event) -> Vec<u32> {
        let Event::Failed { action, .. } = event else {
            return Vec::new();
        };
        let starting = self.starting_by(action);
        if starting.is_empty() || matches!(action, Action::Place { .. }) {
            return starting;
        }
        let mut after = self.slice();
        let happened = after.happen(now, event.clone());
        if happened.is_err() {
            return Vec::new();
        }
        after.unseated(starting)
    }

    /// Keeps what lending and giving back took: from the order on, or from when it was wanted.
    pub(super) fn time(&mut self, at: Nanoseconds, event: &Event) {
        /// Times that are kept of a lease.
        const KEPT: usize = 100;
        let Event::Done { action, .. } = event else {
            return;
        };
        let (Action::Place { job, .. } | Action::Restore { job, .. } | Action::Reclaim { job }) =
            action
        else {
            return;
        };
        // Only what a service takes to start is to be known beforehand; and to find its order is work.
        let service = |lease: &Lease| lease.ask.service.is_some();
        if matches!(action, Action::Place { .. }) && !self.leases.get(&job.0).is_some_and(service) {
            return;
        }
        let same = |work: &Work| matches!(work, Work::Act { action: one, .. } if one == action);
        let order = self.orders.iter().find(|(_, work)| same(work));
        let ordered = order.and_then(|(id, _)| self.ordered.get(id)).copied();
        let wanted = self.world.job(*job).and_then(|state| state.rare.wanted);
        let Some(lease) = self.leases.get_mut(&job.0) else {
            return;
        };
        let restores = matches!(action, Action::Restore { .. });
        let since = if restores {
            wanted.or(ordered)
        } else {
            ordered
        };
        let times = match action {
            Action::Place { .. } => &mut lease.starts,
            Action::Restore { .. } => &mut lease.returned,
            _ => &mut lease.freed,
        };
        if let Some(since) = since {
            let took = Nanoseconds(at.0.saturating_sub(since.0));
            times.push(took);
            if times.len() > KEPT {
                times.remove(0);
            }
            self.start_seen(at, action, took);
        }
    }

    /// Orders what no plan asked for: stops of jobs that have lost workers.
    pub(super) fn orders_that_follow(&mut self) {
        for task in self.world.under_way() {
            let known = self
                .orders
                .values()
                .any(|work| matches!(work, Work::Act { attempt, .. } if *attempt == task.attempt));
            if !known {
                self.order(Work::Act {
                    action: task.action,
                    attempt: task.attempt,
                });
            }
        }
    }

    /// Forgets orders whose actions are no longer under way: what they were for was lost.
    pub(super) fn drop_orders(&mut self) {
        let world = &self.world;
        self.orders.retain(|_, work| match work {
            Work::Act { action, attempt } => world.attempt_of(action) == Some(*attempt),
            Work::Stop { job, .. } | Work::Restart { job, .. } => world.job(*job).is_some(),
            Work::Keep { node, .. } | Work::Drop { node, .. } => world.node(*node).is_some(),
        });
        let orders = &self.orders;
        self.ordered.retain(|id, _| orders.contains_key(id));
    }
}
