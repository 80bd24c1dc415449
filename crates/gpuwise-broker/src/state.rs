//! The state, and what can be asked of it.

use crate::{
    Lease, LeaseState, Order, OrderId, Tenant, Token,
    conserved::Conserved,
    executor::Work,
    grants::Grants,
    keys::Keys,
    lent::Lending,
    money::Accounts,
    policies::Given,
    pools::Pools,
    proposals::Proposal,
    raised::Borne,
    scaling::Scaling,
    slos::{AtRisk, Slo},
    starts::Starts,
    telemetry::Telemetry,
};
use gpuwise_account::period::Month;
use gpuwise_domain::placement::{Action, Health, Kinds, NodeId};
use gpuwise_sched::world::{Phase, Refused, World};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{FiledDocument, PolicyDocument};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Everything that is so: who may ask, who holds what, until when, what it has cost.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Broker {
    pub(crate) world: World,
    #[serde(with = "crate::image::document")]
    pub(crate) policy: PolicyDocument,
    /// How often it was set, and since when it holds.
    pub(crate) policy_version: u32,
    pub(crate) policy_since: Nanoseconds,
    pub(crate) given: Given,
    /// What the last fleet file said.
    #[serde(with = "crate::image::document")]
    pub(crate) filed: Arc<FiledDocument>,
    /// Nodes on which nothing new is placed, and what they are but for that.
    pub(crate) cordoned: BTreeMap<NodeId, Health>,
    /// Those of them whose leases are preempted where they may be.
    pub(crate) drained: BTreeSet<NodeId>,
    pub(crate) tenants: BTreeMap<String, Tenant>,
    /// By their hashes.
    pub(crate) tokens: BTreeMap<String, Token>,
    /// When secrets were set, by their tenants and names.
    pub(crate) secrets: BTreeMap<(String, String), Nanoseconds>,
    pub(crate) leases: BTreeMap<u32, Lease>,
    /// Leases that are not over.
    pub(crate) open: BTreeSet<u32>,
    /// The same by tenant.
    pub(crate) open_of: BTreeMap<String, BTreeSet<u32>>,
    /// Leases that are not over and serve a model, by its name.
    pub(crate) services: BTreeMap<String, BTreeSet<u32>>,
    /// Kinds of which the fleet has a GPU.
    pub(crate) present: Kinds,
    /// Ends of leases that have one and are active.
    pub(crate) ends: BTreeSet<(Nanoseconds, u32)>,
    /// What was asked under which key of which tenant: its hash, and the lease.
    pub(crate) keys: Keys<u32>,
    /// What executors are to do and have not answered.
    pub(crate) orders: BTreeMap<OrderId, Work>,
    /// The order that started what runs of each lease.
    pub(crate) started_by: BTreeMap<u32, OrderId>,
    /// Since when they are to do it.
    pub(crate) ordered: BTreeMap<OrderId, Nanoseconds>,
    pub(crate) last_order: u64,
    pub(crate) grants: Grants,
    /// Services that have a place and do not run on it yet.
    pub(crate) coming: BTreeSet<u32>,
    /// Leases that have begun when they may cost more than is held back for them.
    pub(crate) unheld: BTreeSet<u32>,
    pub(crate) accounts: Accounts,
    /// What was granted, counted beside the books.
    pub(crate) conserved: Conserved,
    /// What leases told of their use.
    pub(crate) telemetry: BTreeMap<u32, Telemetry>,
    pub(crate) slos: BTreeMap<u32, Slo>,
    /// The largest number that an SLO ever had.
    pub(crate) last_slo: u32,
    /// Leases of which usage was told last: those whose SLOs may have come to be at risk.
    pub(crate) fresh: BTreeSet<u32>,
    pub(crate) at_risk: BTreeMap<u32, AtRisk>,
    /// What others bear for those whose demand was raised: by who bears it, then for whom.
    pub(crate) raised: BTreeMap<u32, BTreeMap<u32, Borne>>,
    pub(crate) proposals: BTreeMap<u32, Proposal>,
    /// Services that follow demand, by their first leases.
    pub(crate) scaling: BTreeMap<u32, Scaling>,
    /// Names of reservations that are the broker's own: what warm replicas gave up.
    pub(crate) warm_kept: BTreeSet<String>,
    /// What sleeping replicas lend.
    pub(crate) lending: Lending,
    /// What starts of models took.
    pub(crate) starts: Starts,
    /// Weights in the memory of nodes.
    pub(crate) pools: Pools,
    /// Leases that are not over and are replicas of others.
    pub(crate) replicas: BTreeSet<u32>,
    /// What was measured of services: rows as `gpuwise calibrate` keeps them, by the first lease of each.
    pub(crate) learned: BTreeMap<u32, String>,
    /// The month whose budgets hold what leases may cost.
    pub(crate) month: Month,
    /// The first month whose statements are not made for good.
    pub(crate) unclosed: Month,
    /// What else was asked under which key of which tenant: its hash, and what it is about.
    pub(crate) deeds: Keys<String>,
    /// Leases that are to get GPUs.
    pub(crate) seekers: BTreeSet<u32>,
    /// When the log begins.
    pub(crate) begun: Nanoseconds,
    pub(crate) now: Nanoseconds,
}

/// The log does not fit together: an event cannot have happened after those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("the log does not begin with a fleet")]
    NotBegun,
    #[error("the log begins a second time")]
    Twice,
    #[error("the fleet cannot have changed so")]
    World(#[from] Refused),
    #[error("{0}")]
    Document(String),
    #[error("there is no lease L-{0}")]
    NoSuchLease(u32),
    #[error("there is a lease L-{0} already")]
    SecondLease(u32),
}

impl Broker {
    /// The time of the last event.
    pub const fn now(&self) -> Nanoseconds {
        self.now
    }

    /// When the log begins.
    pub const fn begun(&self) -> Nanoseconds {
        self.begun
    }

    pub const fn world(&self) -> &World {
        &self.world
    }

    /// By what the scheduler goes.
    pub const fn policy(&self) -> &PolicyDocument {
        &self.policy
    }

    pub fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.values()
    }

    pub fn tenant(&self, name: &str) -> Option<&Tenant> {
        self.tenants.get(name)
    }

    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }

    /// The token of a hash, where it may be used now.
    pub fn token(&self, hash: &str, now: Nanoseconds) -> Option<&Token> {
        let token = self.tokens.get(hash)?;
        token.expires.is_none_or(|end| now < end).then_some(token)
    }

    /// All leases, by number.
    pub fn leases(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.leases.values()
    }

    /// Leases that are not over, by number.
    pub fn open(&self) -> impl Iterator<Item = &Lease> {
        self.open
            .iter()
            .filter_map(|number| self.leases.get(number))
    }

    /// A tenant's leases that are not over, by number.
    pub fn open_of(&self, tenant: &str) -> impl Iterator<Item = &Lease> {
        let numbers = self.open_of.get(tenant).into_iter().flatten();
        numbers.filter_map(|number| self.leases.get(number))
    }

    /// Whether so many of a tenant's leases wait for their first place, or more.
    pub fn has_waiting(&self, tenant: &str, most: u32) -> bool {
        let most = most as usize;
        // All that are open are counted first, as they are at once.
        let open = self.open_of.get(tenant).map_or(0, BTreeSet::len);
        let waits = |lease: &&Lease| self.state(lease).0 == LeaseState::Requested;
        open >= most && self.open_of(tenant).filter(waits).take(most).count() == most
    }

    /// Leases that are not over and serve a model, by number.
    pub fn serving(&self, model: &str) -> impl Iterator<Item = &Lease> {
        let numbers = self.services.get(model).into_iter().flatten();
        numbers.filter_map(|number| self.leases.get(number))
    }

    /// Leases that are not over and serve models, by model.
    pub fn services(&self) -> impl Iterator<Item = (&str, &Lease)> {
        let all = self.services.iter();
        all.flat_map(|(model, numbers)| {
            let found = numbers.iter().filter_map(|number| self.leases.get(number));
            found.map(|lease| (model.as_str(), lease))
        })
    }

    /// The order that started what runs of a lease.
    pub fn started_by(&self, lease: u32) -> Option<OrderId> {
        self.started_by.get(&lease).copied()
    }

    pub fn lease(&self, number: u32) -> Option<&Lease> {
        self.leases.get(&number)
    }

    /// Rows that were measured of the service of a lease.
    pub fn learned_of(&self, origin: u32) -> Option<&str> {
        self.learned.get(&origin).map(String::as_str)
    }

    /// Tables of rows that were measured here, as `gpuwise calibrate` reads them.
    pub fn learned(&self) -> impl Iterator<Item = &str> {
        self.learned.values().map(String::as_str)
    }

    pub const fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Where a lease is in its life, and since when.
    pub fn state(&self, lease: &Lease) -> (LeaseState, Nanoseconds) {
        use gpuwise_wire::broker::EndedHow;
        if let Some(over) = &lease.over {
            let state = match over.how {
                EndedHow::Ended => LeaseState::Ended,
                EndedHow::Failed => LeaseState::Failed,
            };
            return (state, over.at);
        }
        if let Some((since, _)) = &lease.draining {
            return (LeaseState::Draining, *since);
        }
        let Some(job) = self.world.job(lease.job()) else {
            return (LeaseState::Requested, lease.requested);
        };
        let since = job.phase.since();
        let state = match job.phase {
            Phase::Waiting { .. } if lease.started.is_some() => LeaseState::Suspended,
            Phase::Waiting { .. } => LeaseState::Requested,
            Phase::Reclaimed { .. } => LeaseState::Suspended,
            Phase::Running { .. } => match &lease.halted {
                Some((halted, _)) => return (LeaseState::Halted, *halted),
                None => LeaseState::Active,
            },
            Phase::Starting { .. } if self.is_ready(lease) => LeaseState::Starting,
            Phase::Starting { .. } => LeaseState::Reserved,
        };
        (state, since)
    }

    /// Whether nothing is missing for what a lease is to start on.
    fn is_ready(&self, lease: &Lease) -> bool {
        let order = self.started_by.get(&lease.number);
        let work = order.and_then(|order| self.orders.get(order));
        work.is_some_and(|work| match work {
            Work::Act { action, .. } => self.world.can_start(action),
            Work::Stop { .. } | Work::Restart { .. } | Work::Keep { .. } | Work::Drop { .. } => {
                false
            }
        })
    }

    /// What executors are to do as of the last event, in order: what can start, and has not been answered.
    pub fn orders(&self) -> impl Iterator<Item = Order> {
        self.orders_by(self.now)
    }

    /// The same as of a moment since.
    pub fn orders_by(&self, now: Nanoseconds) -> impl Iterator<Item = Order> {
        let ready = self.orders.iter().filter(move |(_, work)| match work {
            Work::Act { action, .. } => self.world.can_start(action),
            Work::Restart { job, after } => *after <= now && self.is_running(*job),
            Work::Stop { .. } | Work::Keep { .. } | Work::Drop { .. } => true,
        });
        ready.map(|(id, work)| Order {
            id: *id,
            work: work.clone(),
        })
    }

    /// Whether an order is still wanted.
    pub fn wants(&self, id: OrderId) -> bool {
        self.orders.contains_key(&id)
    }

    /// All that decisions depend on: without leases that are over, and what was metered of the past.
    #[must_use]
    pub fn slice(&self) -> Self {
        let open = self.open().map(|lease| (lease.number, lease.clone()));
        // The last one, so that the next has its number.
        let last = self.leases.last_key_value();
        let last = last.map(|(number, lease)| (*number, lease.clone()));
        Self {
            world: self.world.clone(),
            policy: self.policy.clone(),
            policy_version: self.policy_version,
            policy_since: self.policy_since,
            given: self.given.clone(),
            filed: Arc::clone(&self.filed),
            cordoned: self.cordoned.clone(),
            drained: self.drained.clone(),
            tenants: self.tenants.clone(),
            tokens: BTreeMap::new(),
            secrets: self.secrets.clone(),
            leases: open.chain(last).collect(),
            open: self.open.clone(),
            open_of: self.open_of.clone(),
            services: self.services.clone(),
            present: self.present,
            ends: self.ends.clone(),
            keys: Keys::default(),
            orders: self.orders.clone(),
            started_by: self.started_by.clone(),
            ordered: self.ordered.clone(),
            last_order: self.last_order,
            grants: self.grants.clone(),
            coming: self.coming.clone(),
            unheld: self.unheld.clone(),
            accounts: self.accounts.slice(),
            conserved: Conserved::default(),
            month: self.month,
            unclosed: self.unclosed,
            deeds: Keys::default(),
            seekers: self.seekers.clone(),
            telemetry: BTreeMap::new(),
            slos: self.slos.clone(),
            last_slo: self.last_slo,
            fresh: self.fresh.clone(),
            at_risk: self.at_risk.clone(),
            raised: BTreeMap::new(),
            proposals: BTreeMap::new(),
            scaling: BTreeMap::new(),
            warm_kept: self.warm_kept.clone(),
            lending: Lending::default(),
            starts: Starts::default(),
            pools: Pools::default(),
            replicas: self.replicas.clone(),
            learned: self.learned.clone(),
            begun: self.begun,
            now: self.now,
        }
    }

    pub(crate) fn order(&mut self, work: Work) -> OrderId {
        self.last_order += 1;
        let id = OrderId(self.last_order);
        if let Work::Act {
            action:
                Action::Place { job, .. }
                | Action::Move { job, .. }
                | Action::Resize { job, .. }
                | Action::Restore { job, .. },
            ..
        } = &work
        {
            self.started_by.insert(job.0, id);
        }
        self.orders.insert(id, work);
        self.ordered.insert(id, self.now);
        id
    }
}
