//! Leases that are asked for and given back.

use crate::{
    Broker, Lease, LeaseState, Refusal,
    lease::lease_number,
    money::{paid, total},
    scaling::sleeps,
    tenants::exact,
};
use gpuwise_domain::placement::{Job, JobId, QueueId, Shortage};
use gpuwise_sched::{decide::shortage, report::shortage_words, world::StoredJob};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, EndedHow, LeaseAsk, LeaseSize, ObjectiveDocument, SloDocument},
    live::JobDocument,
};

/// A lease that is asked for, as the kernel is to see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub ask: LeaseAsk,
    /// What it needs; its number, tenant and queue are the broker's to say.
    pub job: Job,
    pub size: Option<LeaseSize>,
    pub length: Option<Nanoseconds>,
    /// The key under which it is asked for, and a hash of what is asked.
    pub key: Option<(String, String)>,
    /// The deployment of a model, as `gpuwise plan --save` writes it.
    pub deployment: Option<String>,
    /// What it is held to, where the request says it.
    pub objectives: Vec<ObjectiveDocument>,
    /// The lease in whose place it comes.
    pub in_place_of: Option<u32>,
}

impl Broker {
    /// The lease that was asked for under a key within the last day; `None`: the key is new.
    ///
    /// # Errors
    /// When something else was asked for under it.
    pub fn known(
        &self,
        at: Nanoseconds,
        tenant: &str,
        key: &(String, String),
    ) -> Result<Option<u32>, Refusal> {
        Ok(self.keys.of(at, tenant, key)?.copied())
    }

    /// Admits a lease: its number, and what has happened then.
    ///
    /// # Errors
    /// When it could never start, or what it may cost is more than the budget has left.
    pub fn request(
        &self,
        at: Nanoseconds,
        asked: Asked,
    ) -> Result<(u32, Vec<BrokerEvent>), Refusal> {
        let tenant = asked.ask.tenant.clone();
        let Some(known) = self.tenants.get(&tenant) else {
            return Err(Refusal::NoSuchTenant(tenant));
        };
        if let Some(key) = &asked.key
            && let Some(lease) = self.known(at, &tenant, key)?
        {
            return Ok((lease, Vec::new()));
        }
        if known.suspended {
            return Err(Refusal::Suspended(tenant));
        }
        for name in asked.ask.secrets.values() {
            self.has_secret(&tenant, name)?;
        }
        let last = self
            .leases
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        let number = last.checked_add(1).ok_or(Refusal::Full)?;
        let job = self.job_of(at, number, &asked);
        self.can_ever_start(&job)?;
        let spot = asked.ask.preemptible == Some(true);
        let interval = Self::span(at, paid(&asked.ask, asked.length));
        let (budgets, prices) = (&self.accounts.budgets, self.accounts.books.prices());
        let held = self.hold_back(budgets, prices, (spot, &job), interval)?;
        let reserved = held.as_deref().and_then(total);
        let event = BrokerEvent::LeaseRequested {
            lease: number,
            ask: asked.ask,
            job: JobDocument::of(&job),
            size: asked.size,
            length_ns: asked.length.map(|length| length.0),
            key: asked.key,
            reserved: reserved.map(exact),
            deployment: asked.deployment,
            in_place_of: asked.in_place_of,
            replica_of: None,
        };
        let mut events = vec![event];
        if !asked.objectives.is_empty() {
            let last = self.slos.last_key_value().map_or(0, |(number, _)| *number);
            events.push(BrokerEvent::SloSet {
                slo: SloDocument {
                    number: last.max(self.last_slo) + 1,
                    tenant,
                    lease: Some(number),
                    objectives: asked.objectives,
                },
            });
        }
        Ok((number, events))
    }

    /// The kernel's job of a lease that would have this number.
    pub(crate) fn job_of(&self, at: Nanoseconds, number: u32, asked: &Asked) -> Job {
        let tenant = &asked.ask.tenant;
        let queues = self.world.queues().iter();
        let queue = queues.zip(0..).find(|(queue, _)| queue.name == *tenant);
        let name = asked.ask.name.clone();
        Job {
            id: JobId(number),
            name: name.unwrap_or_else(|| format!("L-{number}")),
            tenant: tenant.clone(),
            queue: queue.map(|(_, id)| QueueId(id)),
            submitted: at,
            ..asked.job.clone()
        }
    }

    fn can_ever_start(&self, job: &Job) -> Result<(), Refusal> {
        let job = &StoredJob::from(job);
        let short = shortage(&self.world, job);
        let never = matches!(
            short,
            Shortage::NoSuchGpu { .. } | Shortage::LargerThanFleet { .. }
        );
        if never {
            let words = shortage_words(&self.world, job, &short);
            return Err(Refusal::Infeasible(words));
        }
        Ok(())
    }

    /// Gives a lease back: it is told to end, or ends where it holds nothing.
    ///
    /// # Errors
    /// When there is none, or it is over.
    pub fn release(&self, number: u32, reason: &str) -> Result<Vec<BrokerEvent>, Refusal> {
        let lease = self.lease(number);
        let lease = lease.ok_or_else(|| Refusal::NoSuchLease(format!("L-{number}")))?;
        match self.state(lease).0 {
            LeaseState::Ended | LeaseState::Failed => Err(Refusal::LeaseOver(lease.id())),
            LeaseState::Draining => Ok(Vec::new()),
            LeaseState::Requested => Ok(vec![ended(lease, reason)]),
            // What sleeps is there, and is to be ended.
            LeaseState::Suspended if self.holds_nothing(lease) && !sleeps(&lease.ask) => {
                Ok(vec![ended(lease, reason)])
            }
            _ => Ok(vec![BrokerEvent::Draining {
                lease: number,
                reason: reason.into(),
            }]),
        }
    }

    fn holds_nothing(&self, lease: &Lease) -> bool {
        let job = self.world.job(lease.job());
        job.is_none_or(|job| {
            job.assignments.is_empty() && !job.stopping && job.rare.leaving.is_empty()
        })
    }

    /// The lease of an id such as `L-42`.
    ///
    /// # Errors
    /// When there is none.
    pub fn lease_of(&self, id: &str) -> Result<&Lease, Refusal> {
        let found = lease_number(id).and_then(|number| self.lease(number));
        found.ok_or_else(|| Refusal::NoSuchLease(id.into()))
    }
}

pub(crate) fn ended(lease: &Lease, reason: &str) -> BrokerEvent {
    BrokerEvent::Ended {
        lease: lease.number,
        how: EndedHow::Ended,
        reason: reason.into(),
        exit_code: None,
        ended_ns: None,
    }
}
