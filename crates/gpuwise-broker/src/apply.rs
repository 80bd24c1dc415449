//! Events make the state: the only way in which it changes.

use crate::{
    Broken, Broker, Lease, Tenant, Token,
    executor::Work,
    grants::Grants,
    lease::{Over, lease_id},
    money::Accounts,
};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{
    Action, Ended, Event, Fleet, GpuId, Job, JobId, Kinds, Part, Plan, Queue, TimestampedEvent,
};
use gpuwise_sched::world::{JobState, Phase, World};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{AskedDocument, BrokerEvent, EndedHow, LoggedEvent, PlacedReason, TenantDocument},
};
use std::collections::{BTreeMap, BTreeSet};

/// How long what runs has to end once it is told to.
const GRACE: Nanoseconds = Nanoseconds(30_000_000_000);

impl Broker {
    /// The state after the first event of a log.
    ///
    /// # Errors
    /// When it is not the one that a log begins with.
    pub fn begin(first: &LoggedEvent) -> Result<Self, Broken> {
        let BrokerEvent::Began {
            fleet,
            present,
            policy,
        } = &first.event
        else {
            return Err(Broken::NotBegun);
        };
        let at = Nanoseconds(first.at_ns);
        let mut fleet: Fleet = fleet.clone().noun();
        let budgets: Vec<(String, Option<Money>)> = fleet
            .queues
            .iter_mut()
            // Money is held here, not by the kernel, so that it is held once.
            .map(|queue| (queue.name.clone(), queue.budget.take()))
            .collect();
        let mut world = World::new(&fleet);
        for event in present {
            let event = event.clone().noun();
            world.apply(&TimestampedEvent { at, event })?;
        }
        let tenant = |(name, _): (String, Option<Money>)| {
            let tenant = Tenant {
                name: name.clone(),
                created: at,
                suspended: false,
            };
            (name, tenant)
        };
        let mut accounts = Accounts::new(&fleet);
        for (tenant, budget) in &budgets {
            accounts.set_budget(tenant, *budget);
        }
        Ok(Self {
            world,
            policy: policy.clone(),
            tenants: budgets.into_iter().map(tenant).collect(),
            tokens: BTreeMap::new(),
            leases: BTreeMap::new(),
            open: BTreeSet::new(),
            open_of: BTreeMap::new(),
            services: BTreeMap::new(),
            present: fleet
                .gpus
                .iter()
                .fold(Kinds::NONE, |kinds, gpu| kinds.with(gpu.kind)),
            ends: BTreeSet::new(),
            keys: BTreeMap::new(),
            orders: BTreeMap::new(),
            started_by: BTreeMap::new(),
            ordered: BTreeMap::new(),
            last_order: 0,
            grants: Grants::default(),
            month: Month::of(at),
            unclosed: Month::of(at),
            deeds: BTreeMap::new(),
            seekers: BTreeSet::new(),
            accounts,
            telemetry: BTreeMap::new(),
            slos: BTreeMap::new(),
            last_slo: 0,
            fresh: BTreeSet::new(),
            at_risk: BTreeMap::new(),
            proposals: BTreeMap::new(),
            learned: BTreeMap::new(),
            begun: at,
            now: at,
        })
    }

    /// Applies an event.
    ///
    /// # Errors
    /// When it cannot have happened after those before it: the log does not fit together.
    pub fn apply(&mut self, logged: &LoggedEvent) -> Result<(), Broken> {
        let at = Nanoseconds(logged.at_ns);
        self.now = self.now.max(at);
        match &logged.event {
            BrokerEvent::Began { .. } => return Err(Broken::Twice),
            BrokerEvent::PolicySet { policy } => {
                self.policy.clone_from(policy);
                if let Some(sharing) = &policy.sharing {
                    let event = Event::SharingSet(sharing.clone().noun());
                    self.world.apply(&TimestampedEvent { at, event })?;
                }
            }
            BrokerEvent::TenantSet { tenant, reserved } => {
                self.set_tenant(at, tenant)?;
                self.reserved(at, reserved)?;
            }
            BrokerEvent::PriceSet { price, reserved } => {
                self.cut(at);
                self.price_set(price)?;
                self.reserved(at, reserved)?;
            }
            BrokerEvent::MonthClosed { month } => self.month_closed(month)?,
            BrokerEvent::Asked(asked) => self.asked(asked),
            BrokerEvent::TokenAdded { token } => {
                let known = Token {
                    name: token.name.clone(),
                    role: token.role,
                    tenant: token.tenant.clone(),
                    expires: token.expires_ns.map(Nanoseconds),
                };
                self.tokens.insert(token.hash.clone(), known);
            }
            BrokerEvent::TokenRevoked { name, tenant } => {
                let same = |one: &Token| one.name == *name && one.tenant == *tenant;
                self.tokens.retain(|_, one| !same(one));
            }
            BrokerEvent::LeaseRequested { .. } => self.requested(at, &logged.event)?,
            BrokerEvent::MonthBegan { reserved } => self.month_began(at, reserved)?,
            BrokerEvent::Planned { plan, placed } => {
                let plan: Plan = plan.clone().noun();
                self.planned(at, &plan, placed)?;
            }
            BrokerEvent::Fleet { event } => self.fleet_event(at, event.clone().noun())?,
            BrokerEvent::Draining { lease, reason } => self.drain(at, *lease, reason)?,
            BrokerEvent::Ended {
                lease,
                how,
                reason,
                exit_code,
            } => {
                let over = Over {
                    at,
                    how: *how,
                    reason: reason.clone(),
                    exit_code: *exit_code,
                };
                self.end(at, *lease, over)?;
            }
            BrokerEvent::Used { .. }
            | BrokerEvent::SloSet { .. }
            | BrokerEvent::SloRemoved { .. }
            | BrokerEvent::DemandSet { .. }
            | BrokerEvent::Learned { .. }
            | BrokerEvent::Proposed { .. }
            | BrokerEvent::ProposalMoved { .. } => self.of_a_service(at, &logged.event)?,
        }
        Ok(())
    }

    /// A lease was admitted.
    fn requested(&mut self, at: Nanoseconds, event: &BrokerEvent) -> Result<(), Broken> {
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
            by: None,
            requested: at,
            length: length_ns.map(Nanoseconds),
            started: None,
            place: Vec::new(),
            weighed: Vec::new(),
            candidates: 0,
            failed_starts: 0,
            failed_because: None,
            freed: Vec::new(),
            returned: Vec::new(),
            draining: None,
            over: None,
        };
        if self.leases.contains_key(lease) {
            return Err(Broken::SecondLease(*lease));
        }
        self.happen(at, Event::Submitted(job))?;
        if let Some((key, hash)) = key {
            let key = (ask.tenant.clone(), key.clone());
            self.keys.insert(key, (hash.clone(), *lease));
        }
        if let Some(reserved) = reserved {
            self.reserve(at, &requested, money(reserved)?);
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

    /// What services told, are held to, and should become.
    fn of_a_service(&mut self, at: Nanoseconds, event: &BrokerEvent) -> Result<(), Broken> {
        match event {
            BrokerEvent::Used { usage } => {
                self.used(at, usage);
                self.still_at_risk(at);
            }
            BrokerEvent::SloSet { slo } => self.slo_set(slo),
            BrokerEvent::SloRemoved { slo } => {
                self.slos.remove(slo);
            }
            BrokerEvent::DemandSet {
                lease,
                priority,
                at_risk,
                reason,
            } => self.demand_set(at, (*lease, *priority, *at_risk), reason)?,
            BrokerEvent::Learned { lease, rows, .. } => {
                self.learned.insert(*lease, rows.clone());
            }
            BrokerEvent::Proposed { proposal } => self.proposed(at, proposal),
            BrokerEvent::ProposalMoved {
                proposal,
                state,
                reason,
                successor,
                saved,
            } => self.proposal_moved(
                at,
                (*proposal, *state, *successor),
                reason,
                saved.as_deref(),
            ),
            // Others are applied where they are told apart.
            _ => {}
        }
        Ok(())
    }

    /// The first lease of the service that a lease serves.
    fn origin(&self, lease: u32, in_place_of: Option<u32>) -> u32 {
        let before = in_place_of.and_then(|before| self.leases.get(&before));
        before.map_or(lease, |before| before.origin)
    }

    pub(crate) fn happen(&mut self, at: Nanoseconds, event: Event) -> Result<(), Broken> {
        self.world.apply(&TimestampedEvent { at, event })?;
        Ok(())
    }

    fn set_tenant(&mut self, at: Nanoseconds, document: &TenantDocument) -> Result<(), Broken> {
        let queue: Queue = document.queue.clone().noun();
        let budget = document.budget.as_deref().map(money).transpose()?;
        let name = queue.name.clone();
        self.happen(at, Event::QueueSet(queue))?;
        let created = self.tenants.get(&name).map_or(at, |tenant| tenant.created);
        let tenant = Tenant {
            name: name.clone(),
            created,
            suspended: document.suspended,
        };
        self.accounts.set_budget(&name, budget);
        self.tenants.insert(name, tenant);
        Ok(())
    }

    fn planned(
        &mut self,
        at: Nanoseconds,
        plan: &Plan,
        placed: &[PlacedReason],
    ) -> Result<(), Broken> {
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

    /// Another month's budgets hold what leases may cost in it.
    fn month_began(&mut self, at: Nanoseconds, reserved: &[(u32, String)]) -> Result<(), Broken> {
        self.month = Month::of(at);
        self.cut(self.month.start());
        self.reserved(at, reserved)
    }

    /// Counts what is held up to a moment, and goes on from there.
    fn cut(&mut self, at: Nanoseconds) {
        for grant in self.grants.cut(at) {
            if let Some(lease) = self.leases.get(&grant.lease) {
                self.accounts.add(&self.world, lease, &[grant]);
            }
        }
    }

    /// What budgets hold back for leases is this from now on.
    fn reserved(&mut self, at: Nanoseconds, reserved: &[(u32, String)]) -> Result<(), Broken> {
        for (number, amount) in reserved {
            let lease = self.leases.get(number).cloned();
            let lease = lease.ok_or(Broken::NoSuchLease(*number))?;
            self.accounts.budgets.release(&lease.id());
            self.reserve(at, &lease, money(amount)?);
        }
        Ok(())
    }

    fn month_closed(&mut self, month: &str) -> Result<(), Broken> {
        let month: Month = month
            .parse()
            .map_err(|error| Broken::Document(format!("an event of the log: {error}")))?;
        self.accounts.books.close(month);
        self.unclosed = month.next();
        Ok(())
    }

    fn asked(&mut self, asked: &AskedDocument) {
        if let Some((key, hash)) = &asked.key {
            let key = (asked.tenant.clone().unwrap_or_default(), key.clone());
            self.deeds
                .insert(key, (hash.clone(), asked.subject.clone()));
        }
        if let Some(lease) = crate::lease_number(&asked.subject)
            && asked.what == "request-lease"
            && let Some(lease) = self.leases.get_mut(&lease)
        {
            lease.by = Some(asked.by.clone());
        }
    }

    fn fleet_event(&mut self, at: Nanoseconds, event: Event) -> Result<(), Broken> {
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
        if let Event::Failed {
            action: Action::Place { job, .. },
            failure,
            ..
        } = &event
            && let Some(lease) = self.leases.get_mut(&job.0)
        {
            lease.failed_starts += 1;
            lease.failed_because = Some(failure.what.clone());
        }
        if let Event::NodeJoined { gpus, .. } = &event {
            let joined = gpus
                .iter()
                .fold(self.present, |kinds, gpu| kinds.with(gpu.kind));
            self.present = joined;
        }
        self.time(at, &event);
        self.happen(at, event)?;
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
        Ok(())
    }

    /// Keeps what lending and giving back took: from the order on, or from when it was wanted.
    fn time(&mut self, at: Nanoseconds, event: &Event) {
        /// Times that are kept of a lease.
        const KEPT: usize = 100;
        let Event::Done { action, .. } = event else {
            return;
        };
        let (Action::Restore { job, .. } | Action::Reclaim { job }) = action else {
            return;
        };
        let same = |work: &Work| matches!(work, Work::Act { action: one, .. } if one == action);
        let order = self.orders.iter().find(|(_, work)| same(work));
        let ordered = order.and_then(|(id, _)| self.ordered.get(id)).copied();
        let wanted = self.world.job(*job).and_then(|state| state.wanted);
        let Some(lease) = self.leases.get_mut(&job.0) else {
            return;
        };
        let restores = matches!(action, Action::Restore { .. });
        let since = if restores {
            wanted.or(ordered)
        } else {
            ordered
        };
        let times = if restores {
            &mut lease.returned
        } else {
            &mut lease.freed
        };
        if let Some(since) = since {
            times.push(Nanoseconds(at.0.saturating_sub(since.0)));
            if times.len() > KEPT {
                times.remove(0);
            }
        }
    }

    /// Orders what no plan asked for: stops of jobs that have lost workers.
    fn orders_that_follow(&mut self) {
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
    fn drop_orders(&mut self) {
        let world = &self.world;
        self.orders.retain(|_, work| match work {
            Work::Act { action, attempt } => world.attempt_of(action) == Some(*attempt),
            Work::Stop { job, .. } => world.job(*job).is_some(),
        });
        let orders = &self.orders;
        self.ordered.retain(|id, _| orders.contains_key(id));
    }

    /// What an action that began or ended means for its lease.
    fn follow(&mut self, at: Nanoseconds, action: &Action) {
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
        self.meter(at, number);
        self.seek(number);
    }

    /// Notes whether a lease is to get GPUs.
    fn seek(&mut self, number: u32) {
        let lease = self.leases.get(&number);
        let open = lease.is_some_and(|lease| lease.over.is_none() && lease.draining.is_none());
        let job = self.world.job(JobId(number));
        if open && job.is_some_and(JobState::seeks) {
            self.seekers.insert(number);
        } else {
            self.seekers.remove(&number);
        }
    }

    fn is_running(&self, job: JobId) -> bool {
        let state = self.world.job(job);
        state.is_some_and(|state| matches!(state.phase, Phase::Running { .. }))
    }

    /// Meters what a lease has from now on.
    fn meter(&mut self, at: Nanoseconds, lease: u32) {
        let parts = self.parts(JobId(lease));
        let over = self.grants.set(at, lease, parts);
        if let Some(lease) = self.leases.get(&lease) {
            self.accounts.add(&self.world, lease, &over);
        }
    }

    /// What a job that runs has, in the order of its workers.
    fn parts(&self, job: JobId) -> Vec<(GpuId, Part)> {
        let state = self.world.job(job).filter(|_| self.is_running(job));
        let assignments = state.map_or(&[][..], |state| &state.assignments);
        let shares = assignments.iter().flat_map(|one| &one.gpus);
        shares.map(|share| (share.gpu, share.part)).collect()
    }

    fn drain(&mut self, at: Nanoseconds, number: u32, reason: &str) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        lease.draining = Some((at, reason.to_owned()));
        let job = lease.job();
        if let Some(end) = lease.ends() {
            self.ends.remove(&(end, number));
        }
        self.order(Work::Stop { job, grace: GRACE });
        self.seek(number);
        Ok(())
    }

    fn end(&mut self, at: Nanoseconds, number: u32, over: Over) -> Result<(), Broken> {
        let lease = self.leases.get_mut(&number);
        let lease = lease.ok_or(Broken::NoSuchLease(number))?;
        let (job, end) = (lease.job(), lease.ends());
        let how = match over.how {
            EndedHow::Ended => Ended::Finished,
            EndedHow::Failed => Ended::Failed,
        };
        let ended = over.how;
        lease.over = Some(over);
        let over = lease.clone();
        self.judge_end(&over, at, ended);
        self.at_risk.remove(&number);
        self.happen(at, Event::Ended { job, how })?;
        if let Some(end) = end {
            self.ends.remove(&(end, number));
        }
        self.meter(at, number);
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
        self.seek(number);
        self.drop_orders();
        Ok(())
    }
}

fn money(text: &str) -> Result<Money, Broken> {
    text.parse()
        .map_err(|error| Broken::Document(format!("an event of the log: {error}")))
}
