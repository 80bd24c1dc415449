//! Leases: asked for, placed, told to end, over.

use super::money;
use crate::{
    Broken, Broker, Lease,
    executor::Work,
    lease::{Over, lease_id},
};
use gpuwise_domain::placement::{Action, Ended, Event, Job, JobId};
use gpuwise_sched::world::{JobState, Phase};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, EndedHow, LeaseAsk},
};

/// How long what runs has to end once it is told to.
const GRACE: Nanoseconds = Nanoseconds(30_000_000_000);

impl Broker {
    /// A lease was admitted.
    pub(super) fn requested(&mut self, at: Nanoseconds, event: &BrokerEvent) -> Result<(), Broken> {
        let BrokerEvent::LeaseRequested {
            lease,
            ask,
            job,
            size,
            length_ns,
            key,
            reserved,
            deployment,
            in_place_of,
            replica_of,
        } = event
        else {
            return Ok(());
        };
        let job: Job = job.clone().noun();
        let requested = Lease {
            number: *lease,
            ask: ask.clone(),
            size: size.clone(),
            deployment: deployment.clone(),
            origin: self.origin(*lease, *in_place_of),
            replica_of: *replica_of,
            by: None,
            requested: at,
            length: length_ns.map(Nanoseconds),
            started: None,
            place: Vec::new(),
            weighed: Vec::new(),
            candidates: 0,
            failed_starts: 0,
            failed_because: None,
            restarts: crate::Restarts::default(),
            freed: Vec::new(),
            returned: Vec::new(),
            starts: Vec::new(),
            halted: None,
            draining: None,
            over: None,
        };
        if self.leases.contains_key(lease) {
            return Err(Broken::SecondLease(*lease));
        }
        self.happen(at, Event::Submitted(job))?;
        if let Some((key, hash)) = key {
            let key = (ask.tenant.clone(), key.clone());
            self.keys.keep(at, key, hash.clone(), *lease);
        }
        let reserved = reserved.as_deref().map(money).transpose()?;
        if let Some(reserved) = reserved {
            self.reserve(at, &requested, reserved);
        }
        self.scaling_begins(at, &requested);
        if replica_of.is_some() {
            self.replicas.insert(*lease);
        }
        self.leases.insert(*lease, requested);
        self.open.insert(*lease);
        if let Some(service) = &ask.service {
            let serving = self.services.entry(service.model.clone()).or_default();
            serving.insert(*lease);
        }
        let own = self.open_of.entry(ask.tenant.clone()).or_default();
        own.insert(*lease);
        self.seek(*lease);
        Ok(())
    }

    /// The first lease of the service that a lease serves.
    pub(super) fn origin(&self, lease: u32, in_place_of: Option<u32>) -> u32 {
        let before = in_place_of.and_then(|before| self.leases.get(&before));
        before.map_or(lease, |before| before.origin)
    }

    pub(super) fn drain(
        &mut self,
        at: Nanoseconds,
        number: u32,
        reason: &str,
    ) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        lease.draining = Some((at, reason.to_owned()));
        self.unheld.remove(&number);
        let job = lease.job();
        if let Some(end) = lease.ends() {
            self.ends.remove(&(end, number));
        }
        self.restarted(number);
        self.order(Work::Stop { job, grace: GRACE });
        self.seek(number);
        Ok(())
    }

    pub(super) fn end(&mut self, at: Nanoseconds, number: u32, over: Over) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        let (job, end) = (lease.job(), lease.ends());
        let how = match over.how {
            EndedHow::Ended => Ended::Finished,
            EndedHow::Failed => Ended::Failed,
        };
        let (ended, until) = (over.how, over.at);
        lease.halted = None;
        lease.over = Some(over);
        forget_words(&mut lease.ask);
        let over = lease.clone();
        self.judge_end(&over, at, ended);
        self.raised_over(at, number);
        self.at_risk.remove(&number);
        self.happen(at, Event::Ended { job, how })?;
        if let Some(end) = end {
            self.ends.remove(&(end, number));
        }
        // What was held ends when it did, and not when that is heard of.
        self.meter(until, number);
        self.conserve(number);
        self.accounts.budgets.release(&lease_id(number));
        self.open.remove(&number);
        self.services.retain(|_, serving| {
            serving.remove(&number);
            !serving.is_empty()
        });
        if let Some(own) = self.leases.get(&number).map(|lease| &lease.ask.tenant)
            && let Some(own) = self.open_of.get_mut(own)
        {
            own.remove(&number);
        }
        self.started_by.remove(&number);
        self.coming.remove(&number);
        self.unheld.remove(&number);
        self.scaling_ends(number);
        self.seek(number);
        self.drop_orders();
        self.meter_coming(at);
        Ok(())
    }

    /// A lease is halted by the system that runs it, or runs again.
    pub(super) fn halted(
        &mut self,
        at: Nanoseconds,
        number: u32,
        reason: Option<&String>,
    ) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        lease.halted = reason.map(|reason| (at, reason.clone()));
        self.meter(at, number);
        Ok(())
    }

    /// What an action that began or ended means for its lease.
    pub(super) fn follow(&mut self, at: Nanoseconds, action: &Action) {
        let job = match action {
            Action::Place { job, .. }
            | Action::Preempt { job, .. }
            | Action::Move { job, .. }
            | Action::Resize { job, .. }
            | Action::Reclaim { job }
            | Action::Restore { job, .. } => *job,
            Action::SetMig { .. }
            | Action::CreateInstance { .. }
            | Action::DestroyInstance { .. }
            | Action::Attach { .. }
            | Action::Detach { .. } => return,
        };
        let (number, running) = (job.0, self.is_running(job));
        let place = self.world.job(job).map(|state| state.assignments.clone());
        if let Some(lease) = self.leases.get_mut(&number) {
            // What was halted is another start by now, or gives its place up.
            lease.halted = None;
            if let Some(place) = place.filter(|place| !place.is_empty()) {
                lease.place = place;
            }
            if running {
                lease.failed_starts = 0;
                lease.failed_because = None;
            }
            if running && lease.started.is_none() {
                lease.started = Some(at);
                if let Some(end) = lease.ends() {
                    self.ends.insert((end, number));
                }
                let lease = lease.clone();
                self.judge_start(&lease, at);
                if lease.draining.is_none() && !self.is_covered(at, &lease) {
                    // It begins at another time than it was held for.
                    self.unheld.insert(number);
                }
            }
        }
        if matches!(action, Action::Preempt { .. })
            && !running
            && let Some(lease) = self.leases.get(&number).cloned()
            && lease.over.is_none()
            && lease.draining.is_none()
        {
            self.judge_stop(&lease, at);
        }
        self.raised_follow(at, number, running);
        self.comes(number);
        self.meter(at, number);
        self.seek(number);
    }

    /// Notes a service that has a place and does not run on it yet.
    fn comes(&mut self, number: u32) {
        let lease = self.leases.get(&number);
        let service = lease.is_some_and(|one| one.ask.service.is_some());
        let job = self.world.job(JobId(number)).filter(|_| service);
        if job.is_some_and(|state| matches!(state.phase, Phase::Starting { .. })) {
            self.coming.insert(number);
        } else {
            self.coming.remove(&number);
        }
    }

    /// Notes whether a lease is to get GPUs.
    pub(super) fn seek(&mut self, number: u32) {
        let lease = self.leases.get(&number);
        let open = lease.is_some_and(|lease| lease.over.is_none() && lease.draining.is_none());
        let job = self.world.job(JobId(number));
        if open && job.is_some_and(JobState::seeks) {
            self.seekers.insert(number);
        } else {
            self.seekers.remove(&number);
        }
    }

    pub(crate) fn is_running(&self, job: JobId) -> bool {
        let state = self.world.job(job);
        state.is_some_and(|state| matches!(state.phase, Phase::Running { .. }))
    }
}

/// The variable by which spans of a lease go on with the trace of whoever asked.
const TRACE: &str = "TRACEPARENT";
/// Bytes of a command that stay known after its lease.
const KEPT_COMMAND: usize = 4096;

/// Of what runs no more the state keeps no environment, and of a long command its first words: the log has them.
fn forget_words(ask: &mut LeaseAsk) {
    ask.env.retain(|name, _| name == TRACE);
    let mut bytes = 0;
    let fits = |word: &&String| {
        bytes += word.len();
        bytes <= KEPT_COMMAND
    };
    let kept = ask.command.iter().take_while(fits).count();
    if kept < ask.command.len() {
        ask.command.truncate(kept);
        ask.command.push("…".into());
    }
    ask.command.shrink_to_fit();
}
