//! Tenants, months, and what is metered.

use super::money;
use crate::{Broken, Broker, Grant, LeaseState, Tenant};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{Event, GpuId, Health, JobId, Part, Queue};
use gpuwise_sched::world::Phase;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{AskedDocument, TenantDocument},
};
use std::collections::{BTreeMap, BTreeSet};

impl Broker {
    pub(super) fn set_tenant(
        &mut self,
        at: Nanoseconds,
        document: &TenantDocument,
    ) -> Result<(), Broken> {
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
        if budget.is_some() && budget != self.budget(&name) {
            // What was spent is counted up to now, and what is held back is for what comes.
            self.cut(at);
        }
        self.accounts.set_budget(Month::of(at), &name, budget);
        self.tenants.insert(name, tenant);
        Ok(())
    }

    /// Another month's budgets hold what leases may cost in it.
    pub(super) fn month_began(
        &mut self,
        at: Nanoseconds,
        reserved: &[(u32, String)],
    ) -> Result<(), Broken> {
        self.month = Month::of(at);
        self.cut(self.month.start());
        self.reserved(at, reserved)
    }

    /// Counts what is held up to a moment, and goes on from there.
    pub(super) fn cut(&mut self, at: Nanoseconds) {
        self.cut_lent(at);
        for (lease, grants) in self.grants.cut(at) {
            self.add_grants(lease, &grants);
        }
    }

    /// Counts what a lease had: in the books, and beside them.
    fn add_grants(&mut self, lease: u32, grants: &[Grant]) {
        self.conserved.add(&self.world, lease, grants);
        if let Some(lease) = self.leases.get(&lease) {
            self.accounts.add(&self.world, lease, grants);
        }
    }

    /// What budgets hold back for leases is this from now on.
    pub(super) fn reserved(
        &mut self,
        at: Nanoseconds,
        reserved: &[(u32, String)],
    ) -> Result<(), Broken> {
        for (number, amount) in reserved {
            let lease = self.leases.get(number).cloned();
            let lease = lease.ok_or(Broken::NoSuchLease(*number))?;
            self.unheld.remove(number);
            self.reserve(at, &lease, money(amount)?);
        }
        Ok(())
    }

    pub(super) fn month_closed(&mut self, month: &str) -> Result<(), Broken> {
        let month: Month = month
            .parse()
            .map_err(|error| Broken::Document(format!("an event of the log: {error}")))?;
        self.accounts.books.close(month);
        self.unclosed = month.next();
        Ok(())
    }

    pub(super) fn asked(&mut self, at: Nanoseconds, asked: &AskedDocument) {
        if let Some((key, hash)) = &asked.key {
            let key = (asked.tenant.clone().unwrap_or_default(), key.clone());
            self.deeds
                .keep(at, key, hash.clone(), asked.subject.clone());
        }
        if let Some(lease) = crate::lease_number(&asked.subject)
            && asked.what == "request-lease"
            && let Some(lease) = self.leases.get_mut(&lease)
        {
            lease.by = Some(asked.by.clone());
        }
    }

    /// Meters what a lease has from now on.
    pub(crate) fn meter(&mut self, at: Nanoseconds, lease: u32) {
        let starting = self.pays_start(lease);
        let parts = self.parts(JobId(lease));
        let over = self.grants.set(at, lease, parts, starting);
        self.add_grants(lease, &over);
    }

    /// Whether a lease is a service whose engine starts on GPUs that are ready for it: nobody else can have them.
    fn pays_start(&self, number: u32) -> bool {
        let lease = self.leases.get(&number);
        let service = lease.filter(|one| one.ask.service.is_some());
        service.is_some_and(|lease| self.state(lease).0 == LeaseState::Starting)
    }

    /// Meters services that start once what was in their way is gone.
    pub(super) fn meter_coming(&mut self, at: Nanoseconds) {
        for number in self.coming.clone() {
            let waits = self.world.job(JobId(number));
            let starts = waits.is_some_and(|state| matches!(state.phase, Phase::Starting { .. }));
            if !starts {
                self.coming.remove(&number);
            } else if self.grants.is_without(number) {
                self.meter(at, number);
            }
        }
    }

    /// What a job has, in the order of its workers: what it runs on, and what it ran on, was told to leave
    /// and is still on. Until that is free nobody else can have it, so that it is metered as its own.
    pub(super) fn parts(&self, job: JobId) -> Vec<(GpuId, Part)> {
        let Some(state) = self.world.job(job) else {
            return Vec::new();
        };
        let halted = (self.leases.get(&job.0)).is_some_and(|lease| lease.halted.is_some());
        let running = self.is_running(job) && !halted || self.pays_start(job.0);
        let seated = state.assignments.iter().filter(|_| running);
        let seated = seated.flat_map(|one| &one.gpus);
        let mut parts: Vec<(GpuId, Part)> = seated.map(|share| (share.gpu, share.part)).collect();
        let mut on: BTreeMap<GpuId, usize> = BTreeMap::new();
        for (gpu, _) in &parts {
            *on.entry(*gpu).or_default() += 1;
        }
        let leaving: BTreeSet<GpuId> = state.rare.leaving.iter().copied().collect();
        for id in leaving {
            // What moves within a GPU has it once.
            let moved = on.get(&id).copied().unwrap_or(0);
            let still = self.still_on(job, id).into_iter().skip(moved);
            // Who was told to leave before it had begun has had nothing.
            parts.extend(
                still
                    .filter(|part| self.grants.has(job.0, id, *part))
                    .map(|part| (id, part)),
            );
        }
        parts
    }

    /// What a job still has of a GPU that it was told to leave. Of what is lost nothing is known, and nobody
    /// pays for it.
    fn still_on(&self, job: JobId, gpu: GpuId) -> Vec<Part> {
        let Some(gpu) = self.world.gpu(gpu) else {
            return Vec::new();
        };
        let node = gpu.node.and_then(|node| self.world.node(node));
        let lost = |health: Health| matches!(health, Health::Lost { .. });
        if lost(gpu.gpu.health) || node.is_some_and(|node| lost(node.node.health)) {
            return Vec::new();
        }
        let own = gpu.leaving.iter().filter(|(who, _)| *who == job);
        own.map(|(_, part)| *part).collect()
    }
}
