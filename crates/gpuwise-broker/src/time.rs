//! What time and executors make of leases.

use crate::{
    Broker, Lease, LeaseState, Observation, OrderId, ask::ended, executor::Work, money::Trial,
};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{Event, Failure, FailureCause, JobId};
use gpuwise_sched::decide::{Policy, tidy_wake_at, wake_at};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, EndedHow},
    live::EventDocument,
};

/// A lease that could not be started so often in a row has failed.
const STARTS: u32 = 3;

impl Broker {
    /// When time alone changes something: a lease's time is over, a month begins, or a decision comes out
    /// otherwise than at `decided`, when it was decided last; `None`: never.
    pub fn wake_at(&self, policy: &mut Policy, decided: Nanoseconds) -> Option<Nanoseconds> {
        let asked = decided;
        let tidied = tidy_wake_at(&self.world, policy, decided);
        let decided = wake_at(&self.world, policy, decided);
        let month = (!self.open.is_empty()).then(|| self.month.next().start());
        let month = month.into_iter().chain([self.closes_at(self.unclosed)]);
        let end = self.ends.first().map(|(end, _)| *end);
        let proven = self.proven_at();
        let kept = self.reservation_ends();
        let again = self.restarts_at(asked);
        let rest = end.into_iter().chain(decided).chain(tidied).chain(proven);
        let rest = rest.chain(kept).chain(again);
        month.chain(rest).min()
    }

    /// When a month's statements are made for good: what comes later is a correction.
    fn closes_at(&self, month: Month) -> Nanoseconds {
        month.interval().end + self.accounts.books.meter().limits().grace
    }

    /// The first month whose statements are not made for good.
    pub const fn unclosed(&self) -> Month {
        self.unclosed
    }

    /// What has happened by now because time went on: months that are closed, leases whose time is over, and months that begin.
    pub fn due(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        let mut due = self.over(now);
        if Month::of(now) == self.month {
            due.extend(self.begun_elsewhen(now));
        }
        due.extend(self.reservations_over(now));
        if Month::of(now) > self.month {
            due.extend(self.another_month(now));
        }
        let mut month = self.unclosed;
        while self.closes_at(month) <= now {
            let name = month.to_string();
            due.push(BrokerEvent::MonthClosed { month: name });
            month = month.next();
        }
        due
    }

    /// What follows of what has happened: demands of SLOs that are at risk, next steps of proposals. To be
    /// asked again until nothing does.
    pub fn follow_up(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        let mut replicas = self.orphans();
        replicas.extend(self.keep_warm(now));
        if !replicas.is_empty() {
            return replicas;
        }
        let drains = self.drains(now);
        if !drains.is_empty() {
            return drains;
        }
        let demands = self.demands(now);
        if demands.is_empty() {
            self.pursue(now)
        } else {
            demands
        }
    }

    /// Budgets of a month that begins hold what leases may cost in it. Who finds too little left is told to end; those
    /// that run for a stated time go before those that have no end, or have not begun.
    fn another_month(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        const REASON: &str = "the budget of the new month has too little left for it";
        let begun = Month::of(now).start();
        let accounts = self.accounts_until(begun);
        let mut trial = Trial {
            budgets: accounts.budgets.clone(),
            prices: accounts.books.prices(),
            counted: begun,
        };
        let mut open: Vec<&Lease> = self.open().collect();
        open.sort_by_key(|lease| lease.started.is_none() || lease.length.is_none());
        let (reserved, ended) = self.held_again(&mut trial, now, &open, REASON);
        let month = BrokerEvent::MonthBegan { reserved };
        [month].into_iter().chain(ended).collect()
    }

    /// Leases that begin when they cost more than was held back for them: it is held now, or they are told to end.
    fn begun_elsewhen(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        const REASON: &str = "the budget has too little left for it from when it began on";
        let numbers = self.unheld.iter();
        let leases: Vec<&Lease> = numbers.filter_map(|number| self.lease(*number)).collect();
        if leases.is_empty() {
            return Vec::new();
        }
        let mut trial = Trial {
            budgets: self.accounts.budgets.clone(),
            prices: self.accounts.books.prices(),
            counted: now,
        };
        let (reserved, ended) = self.held_again(&mut trial, now, &leases, REASON);
        let held = BrokerEvent::Held { reserved };
        [held].into_iter().chain(ended).collect()
    }

    fn over(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        const REASON: &str = "its time is over";
        let over = self.ends.iter().take_while(|(end, _)| *end <= now);
        let leases = over.filter_map(|(_, number)| self.lease(*number));
        leases
            .map(|lease| match self.state(lease).0 {
                LeaseState::Suspended => ended(lease, REASON),
                _ => BrokerEvent::Draining {
                    lease: lease.number,
                    reason: REASON.into(),
                },
            })
            .collect()
    }

    /// What an executor has told means, as of the last event.
    pub fn observe(&self, observation: &Observation) -> Vec<BrokerEvent> {
        self.observe_at(self.now, observation)
    }

    /// What an executor has told means. Answers to orders that are over mean nothing.
    pub fn observe_at(&self, now: Nanoseconds, observation: &Observation) -> Vec<BrokerEvent> {
        match observation {
            Observation::Done(order) => self.done(*order),
            Observation::Failed {
                order,
                cause,
                reason,
            } => self.failed(now, *order, *cause, reason),
            Observation::Exited {
                job,
                order,
                code,
                reason,
                ago,
            } => self.exited(now, (*job, *order), *code, reason, *ago),
            Observation::Halted { job, order, reason } => {
                let runs = self.runs_by(*job, *order);
                let news = runs.filter(|lease| lease.halted.is_none());
                let halted = news.map(|lease| BrokerEvent::Halted {
                    lease: lease.number,
                    reason: reason.clone(),
                });
                halted.into_iter().collect()
            }
            Observation::Resumed { job, order } => {
                let runs = self.runs_by(*job, *order);
                let news = runs.filter(|lease| lease.halted.is_some());
                let resumed = news.map(|lease| BrokerEvent::Resumed {
                    lease: lease.number,
                });
                resumed.into_iter().collect()
            }
            Observation::Busy { job, milli } => {
                let event = Event::Measured {
                    job: *job,
                    busy_milli: *milli,
                };
                let known = self.world.job(*job).is_some();
                known.then(|| fleet(&event)).into_iter().collect()
            }
            Observation::Node { name, seen, by } => self.node_seen(name, *seen, by),
            Observation::Gpu { uid, seen } => self.gpu_seen(now, uid, seen),
        }
    }

    fn done(&self, order: OrderId) -> Vec<BrokerEvent> {
        match self.orders.get(&order) {
            Some(Work::Act { action, attempt }) if self.world.can_start(action) => {
                vec![fleet(&Event::Done {
                    action: action.clone(),
                    attempt: *attempt,
                })]
            }
            None | Some(Work::Act { .. }) => Vec::new(),
            Some(Work::Restart { job, .. }) => vec![BrokerEvent::Restarted { lease: job.0 }],
            Some(Work::Keep { node, lease }) => self.pooled_on((*node, *lease), true, None),
            Some(Work::Drop { node, lease }) => self.pooled_on((*node, *lease), false, None),
            Some(Work::Stop { job, .. }) => {
                let lease = self.lease(job.0);
                let reason = |lease: &crate::Lease| {
                    let why = lease.draining.as_ref().map(|(_, reason)| reason.clone());
                    ended(lease, &why.unwrap_or_default())
                };
                lease
                    .filter(|lease| lease.over.is_none())
                    .map(reason)
                    .into_iter()
                    .collect()
            }
        }
    }

    fn failed(
        &self,
        now: Nanoseconds,
        order: OrderId,
        cause: FailureCause,
        reason: &str,
    ) -> Vec<BrokerEvent> {
        match self.orders.get(&order) {
            Some(Work::Act { action, attempt }) if self.world.is_under_way(action) => {
                let failed = Event::Failed {
                    action: action.clone(),
                    attempt: *attempt,
                    failure: Failure {
                        cause,
                        what: reason.to_owned(),
                    },
                };
                let mut events = vec![fleet(&failed)];
                let lost = self.would_lose(now, &failed);
                let lost = lost.into_iter().filter_map(|number| self.lease(number));
                let enough = lost.filter(|lease| lease.failed_starts + 1 >= STARTS);
                events.extend(enough.map(|lease| BrokerEvent::Ended {
                    lease: lease.number,
                    how: EndedHow::Failed,
                    reason: reason.to_owned(),
                    exit_code: None,
                    ended_ns: None,
                }));
                events
            }
            Some(Work::Keep { node, lease }) => self.pooled_on((*node, *lease), true, Some(reason)),
            Some(Work::Drop { node, lease }) => self.pooled_on((*node, *lease), false, None),
            Some(Work::Restart { job, .. }) => {
                let lease = self.lease(job.0);
                lease.map_or_else(Vec::new, |lease| self.fails(now, lease, None, reason, None))
            }
            // What could not be stopped still runs, and is told again.
            _ => Vec::new(),
        }
    }

    fn exited(
        &self,
        now: Nanoseconds,
        (job, order): (JobId, OrderId),
        code: Option<i32>,
        reason: &str,
        ago: Option<Nanoseconds>,
    ) -> Vec<BrokerEvent> {
        let Some(lease) = self.started_as(job, order) else {
            return Vec::new();
        };
        let ended_ns = ago.and_then(|ago| self.ended_before(now, lease, ago));
        if code != Some(0) && lease.draining.is_none() {
            return self.fails(now, lease, code, reason, ended_ns);
        }
        let drained = lease.draining.as_ref().map(|(_, reason)| reason.as_str());
        vec![BrokerEvent::Ended {
            lease: lease.number,
            how: EndedHow::Ended,
            reason: drained.unwrap_or(reason).to_owned(),
            exit_code: code,
            ended_ns,
        }]
    }

    /// A lease that is not over, where this order has started what runs of it.
    fn started_as(&self, job: JobId, order: OrderId) -> Option<&Lease> {
        let lease = self.lease(job.0).filter(|lease| lease.over.is_none());
        lease.filter(|_| self.started_by.get(&job.0) == Some(&order))
    }

    /// The same, where the fleet has it running.
    fn runs_by(&self, job: JobId, order: OrderId) -> Option<&Lease> {
        let lease = self.started_as(job, order);
        lease.filter(|_| self.is_running(job))
    }

    /// When a lease ended that ended so long ago: not before what it is metered for by now began. `None`: now.
    fn ended_before(&self, now: Nanoseconds, lease: &Lease, ago: Nanoseconds) -> Option<u64> {
        let open = self.grants.of(lease.number, now);
        let since = open.iter().map(|grant| grant.start.0).max();
        let since = since.or(lease.started.map(|at| at.0))?;
        let ended = now.0.saturating_sub(ago.0).max(since);
        (ended < now.0).then_some(ended)
    }
}

impl Broker {
    /// What runs of a lease has failed: it is started again, or is over.
    fn fails(
        &self,
        now: Nanoseconds,
        lease: &Lease,
        exit_code: Option<i32>,
        reason: &str,
        ended_ns: Option<u64>,
    ) -> Vec<BrokerEvent> {
        let over = || BrokerEvent::Ended {
            lease: lease.number,
            how: EndedHow::Failed,
            reason: reason.to_owned(),
            exit_code,
            ended_ns,
        };
        let again = self.again(now, lease, exit_code, reason);
        vec![again.unwrap_or_else(over)]
    }
}

fn fleet(event: &Event) -> BrokerEvent {
    BrokerEvent::Fleet {
        event: EventDocument::of(event),
    }
}
