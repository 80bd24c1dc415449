//! Services that follow demand: how many leases of a service serve, and how many are warm.
//!
//! Every period somebody says what was seen ([`Look`]); the controller of `gpuwise-scale` answers how many replicas
//! there are to be, and [`steps`] says what is done about it. All of it is one event, which the log keeps before those
//! that follow of it: leases asked for, parked, woken, given back. The controller's state is made by the same events,
//! so that a broker that starts again goes on as if it had not stopped.

mod devices;
mod events;
mod kept;
mod rules;
mod shared;
mod steps;
mod words;

pub use events::Look;
use rules::as_said;
pub use rules::{LatencyTargets, rules};
pub use words::reason;

use crate::{Broker, Lease, LeaseState, Refusal, lease_id};
use gpuwise_domain::placement::JobId;
use gpuwise_scale::{
    cold::ColdStart,
    controller::{Because, Controller as _, Gpuwise, Observed, Rules, TokensSeen},
};
use gpuwise_sched::world::Phase;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{
    BrokerEvent, LeaseAsk, ScalePolicy, ScaleVerb, ScaledDocument, SeenDocument,
};
use std::collections::{BTreeMap, VecDeque};

/// Decisions that are kept of a service.
const KEPT: usize = 20;

gpuwise_units::named! {
    /// What a replica is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    pub enum ReplicaRole:
        name
    {
        Serving = "serving",
        /// It gives its GPUs up once it has nothing to do, and wakes when it is needed.
        Warm = "warm",
        /// It ends once it has nothing to do.
        Leaving = "leaving",
    }
}

/// A service that follows demand.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Scaling {
    controller: Gpuwise,
    targets: LatencyTargets,
    /// Its leases, and since when each is for what.
    roles: BTreeMap<u32, (ReplicaRole, Nanoseconds)>,
    /// When it was looked at last.
    looked: Option<Nanoseconds>,
    #[serde(with = "crate::image::document")]
    last: Option<ScaledDocument>,
    #[serde(with = "crate::image::document")]
    changes: VecDeque<(Nanoseconds, ScaledDocument)>,
}

/// What a replica can do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It waits, starts, or wakes.
    Coming,
    Active,
    /// Its GPUs are given up.
    Parked,
    /// It gives them up, or ends.
    Going,
}

impl Scaling {
    fn new(rules: Rules, targets: LatencyTargets, first: u32, at: Nanoseconds) -> Self {
        Self {
            controller: Gpuwise::new(rules),
            targets,
            roles: [(first, (ReplicaRole::Serving, at))].into(),
            looked: None,
            last: None,
            changes: VecDeque::new(),
        }
    }

    pub const fn rules(&self) -> &Rules {
        self.controller.rules()
    }

    /// Beyond which requests are late that did not wait too long.
    pub const fn targets(&self) -> LatencyTargets {
        self.targets
    }

    /// What was decided last.
    pub const fn last(&self) -> Option<&ScaledDocument> {
        self.last.as_ref()
    }

    /// Decisions that changed something, the oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &(Nanoseconds, ScaledDocument)> {
        self.changes.iter()
    }

    /// Its replicas, and what each is for.
    pub fn replicas(&self) -> impl Iterator<Item = (u32, ReplicaRole)> {
        self.roles.iter().map(|(lease, (role, _))| (*lease, *role))
    }

    /// When it is to be looked at again.
    pub fn due(&self) -> Nanoseconds {
        self.looked.map_or(Nanoseconds(0), |at| {
            Nanoseconds(at.0.saturating_add(self.controller.period().0))
        })
    }

    /// Looks that were left out: nothing came, and nothing was there.
    fn catch_up(&mut self, at: Nanoseconds, look: &ScaledDocument, known: Option<&ColdStart>) {
        if let Some(known) = known {
            self.controller.know_start(known);
        }
        let period = self.controller.period().0;
        for before in (1..=u64::from(look.quiet)).rev() {
            let now = Nanoseconds(at.0.saturating_sub(before.saturating_mul(period)));
            self.controller.decide(&Observed {
                arrived: Some(0.0),
                queued: 0.0,
                running: 0.0,
                ..observed(now, &look.seen)
            });
        }
    }

    /// What was seen goes into the controller, and what was decided is so.
    fn take(&mut self, at: Nanoseconds, look: &ScaledDocument, known: Option<&ColdStart>) {
        self.catch_up(at, look, known);
        // What is kept of the answer is what the log says, also where another release would decide otherwise.
        self.controller.decide(&observed(at, &look.seen));
        self.looked = Some(at);
        for step in &look.steps {
            let role = match step.what {
                ScaleVerb::Start | ScaleVerb::Serve => ReplicaRole::Serving,
                ScaleVerb::StartWarm | ScaleVerb::Spare | ScaleVerb::Park => ReplicaRole::Warm,
                ScaleVerb::Leave | ScaleVerb::Release => ReplicaRole::Leaving,
            };
            let known = self.roles.get(&step.lease);
            if known.is_none_or(|(before, _)| *before != role) {
                self.roles.insert(step.lease, (role, at));
            }
        }
        let given = |one: &ScaledDocument| one.grant.as_ref().map(|grant| grant.gets);
        let before = self.last.as_ref().and_then(given);
        if !look.steps.is_empty() || look.refused.is_some() || given(look) != before {
            self.changes.push_back((at, look.clone()));
            if self.changes.len() > KEPT {
                self.changes.pop_front();
            }
        }
        self.last = Some(look.clone());
    }
}

/// What was seen, as the controller takes it.
fn observed(now: Nanoseconds, seen: &SeenDocument) -> Observed {
    Observed {
        now,
        arrived: seen.arrived,
        queued: seen.queued,
        running: seen.running,
        ready: seen.ready,
        starting: seen.starting,
        warm: seen.warm,
        warming: seen.warming,
        requests: seen.requests,
        late: seen.late,
        // What starts take is learned of all of the model: see `Starts`.
        started: None,
        tokens: seen.tokens.map(|tokens| TokensSeen {
            prompts: tokens.prompts,
            answers: tokens.answers,
        }),
        cache: seen.cache,
    }
}

/// The name of a rule in documents.
const fn because(because: Because) -> &'static str {
    match because {
        Because::Demand => "demand",
        Because::Queue => "queue",
        Because::Band => "band",
        Because::Hold => "hold",
        Because::NoMetrics => "no_metrics",
        Because::Implausible => "implausible",
        Because::NotReady => "not_ready",
        Because::Min => "min",
        Because::Max => "max",
        Because::Idle => "idle",
    }
}

/// Whether what runs lives on without its GPUs, and wakes quickly.
pub(crate) fn sleeps(ask: &LeaseAsk) -> bool {
    let how = ask.suspend.as_deref().unwrap_or_default();
    how == "cuda-checkpoint" || how.split(':').next() == Some("sleep")
}

impl Broker {
    /// Services that follow demand, by their first leases.
    pub fn scaled(&self) -> impl Iterator<Item = (u32, &Scaling)> {
        self.scaling.iter().map(|(service, one)| (*service, one))
    }

    /// The service of which a lease is a replica, by its first lease; `None`: it does not follow demand.
    pub fn scaling_of(&self, lease: &Lease) -> Option<(u32, &Scaling)> {
        let service = lease.replica_of.unwrap_or(lease.number);
        Some((service, self.scaling.get(&service)?))
    }

    /// Whether requests may be sent to a lease: it serves, and is not to be warm or to leave.
    pub fn takes_requests(&self, lease: &Lease) -> bool {
        self.scaling_of(lease).is_none_or(|(_, scaling)| {
            let role = scaling.roles.get(&lease.number);
            role.is_some_and(|(role, _)| *role == ReplicaRole::Serving)
        })
    }

    /// Whether what runs of a job lives on without its GPUs.
    pub fn sleeps(&self, job: JobId) -> bool {
        self.lease(job.0).is_some_and(|lease| sleeps(&lease.ask))
    }

    fn standing(&self, number: u32) -> Standing {
        let lease = self.lease(number);
        let Some(lease) = lease.filter(|one| one.over.is_none() && one.draining.is_none()) else {
            return Standing::Going;
        };
        let Some(job) = self.world.job(JobId(number)) else {
            return Standing::Going;
        };
        if job.stopping || !job.rare.leaving.is_empty() {
            return Standing::Going;
        }
        match job.phase {
            Phase::Reclaimed { .. } if job.rare.wanted.is_none() => Standing::Parked,
            _ if self.state(lease).0 == LeaseState::Active => Standing::Active,
            _ => Standing::Coming,
        }
    }

    /// A lease that follows demand was admitted.
    pub(crate) fn scaling_begins(&mut self, at: Nanoseconds, lease: &Lease) {
        if lease.replica_of.is_some() {
            return;
        }
        let policy = lease
            .ask
            .service
            .as_ref()
            .and_then(|one| one.scale.as_ref());
        // What was admitted can be read.
        let read = policy.and_then(|policy| {
            let rules = as_said(policy, &lease.ask, lease.size.as_ref()).ok()?;
            Some((rules, LatencyTargets::of(policy).ok()?))
        });
        if let Some((rules, targets)) = read {
            let scaling = Scaling::new(rules, targets, lease.number, at);
            self.scaling.insert(lease.number, scaling);
        }
    }

    /// Lets the service of a lease follow demand by this policy from now on.
    ///
    /// # Errors
    /// When there is no such lease, it is over or no service, or the policy cannot be.
    pub fn set_scaling(
        &self,
        number: u32,
        policy: ScalePolicy,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        let known = |number| {
            self.lease(number)
                .ok_or_else(|| Refusal::NoSuchLease(lease_id(number)))
        };
        let lease = known(number)?;
        let service = lease.replica_of.unwrap_or(number);
        let first = known(service)?;
        if first.over.is_some() || first.draining.is_some() {
            return Err(Refusal::LeaseOver(first.id()));
        }
        let Some(ask) = &first.ask.service else {
            let problem = format!("{} serves no model", first.id());
            return Err(Refusal::invalid("lease", problem));
        };
        if ask.idle.is_some() {
            let problem =
                "it gives its GPUs back by itself (service.idle): ask for it anew without that";
            return Err(Refusal::invalid("lease", problem));
        }
        rules(&policy, &first.ask, first.size.as_ref())
            .map_err(|(field, problem)| Refusal::invalid(field, problem))?;
        if ask.scale.as_ref() == Some(&policy) {
            return Ok(Vec::new());
        }
        let policy = Some(policy);
        Ok(vec![BrokerEvent::ScaleSet { service, policy }])
    }

    pub(crate) fn scaling_set(
        &mut self,
        at: Nanoseconds,
        number: u32,
        policy: Option<&ScalePolicy>,
    ) {
        let Some(lease) = self.leases.get_mut(&number) else {
            return;
        };
        if let Some(service) = &mut lease.ask.service {
            service.scale = policy.cloned();
        }
        let lease = lease.clone();
        let before = self.scaling.remove(&number);
        self.scaling_begins(at, &lease);
        // What was learned of demand stays, and who is there is what it was.
        if let (Some(before), Some(now)) = (before, self.scaling.get_mut(&number)) {
            let rules = now.rules().clone();
            now.controller = before.controller.under(rules);
            now.looked = before.looked;
            now.roles = before.roles;
            now.changes = before.changes;
        }
    }

    /// A lease is over: it is nobody's replica any more.
    pub(crate) fn scaling_ends(&mut self, lease: u32) {
        self.scaling.remove(&lease);
        self.replicas.remove(&lease);
        let service = self.leases.get(&lease).and_then(|one| one.replica_of);
        if let Some(scaling) = service.and_then(|service| self.scaling.get_mut(&service)) {
            scaling.roles.remove(&lease);
        }
    }

    /// A replica that gave its GPUs up is wanted: it serves.
    pub(crate) fn scaling_wanted(&mut self, at: Nanoseconds, lease: u32) {
        let service = self
            .leases
            .get(&lease)
            .map(|one| one.replica_of.unwrap_or(lease));
        let scaling = service.and_then(|service| self.scaling.get_mut(&service));
        if let Some((role, since)) = scaling.and_then(|scaling| scaling.roles.get_mut(&lease))
            && *role != ReplicaRole::Serving
        {
            (*role, *since) = (ReplicaRole::Serving, at);
        }
    }

    pub(crate) fn scaled_by(&mut self, at: Nanoseconds, look: &ScaledDocument) {
        let known = self.start_of(look.service);
        if let Some(scaling) = self.scaling.get_mut(&look.service) {
            scaling.take(at, look, known.as_ref());
        }
    }
}
