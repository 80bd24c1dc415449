//! The state of a fleet: what there is, who holds what, who waits.

mod accounting;
mod actions;
mod apply;
mod arrivals;
mod assignments;
mod changes;
mod churn;
mod fence;
mod figures;
mod gpus;
mod hold;
mod ignored;
mod inventory;
mod jobs;
mod lose;
mod members;
mod observe;
mod of_jobs;
mod pages;
mod rare;
mod revert;
mod seldom;
mod stints;
mod stored;
mod table;
mod tempo;
mod trouble;
mod underway;
mod upkeep;

pub use apply::Refused;
pub use arrivals::Arrivals;
pub use changes::Changes;
pub use fence::Fence;
pub use ignored::Ignored;
pub use jobs::{IdleTracker, JobState, Phase};
pub use observe::Drift;
pub use pages::{Pages, Rows};
pub use rare::{Rare, Rarely};
pub use seldom::Seldom;
pub use stored::{JobSpec, StoredJob};
pub use trouble::{FIRST, MOST, NODE_FAILURES, Trouble, wait};
pub use underway::{Task, Underway};
pub use upkeep::Upkeep;

use gpuwise_domain::placement::{
    Attempt, Domain, DomainId, FabricPool, Fleet, FleetGpu, GpuId, GpuKind, Health, Home,
    Isolation, JobId, KindId, Level, Node, NodeId, Part, Queue, Reservation,
};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
pub(crate) use {members::Free, table::JobTable};

/// A fleet and who holds what of it.
///
/// It changes by [`World::apply`] alone. Nodes, GPUs and kinds are known by their place in lists and
/// are never removed; a node that is lost stays, with its health saying so.
///
/// What is held is what plans count on: an action that has begun holds what it will take, and what it
/// will free can be taken by the next. What is still to be freed is kept beside it
/// ([`GpuState::leaving`], [`GpuState::going`], [`GpuState::switching`], [`JobState::stopping`]): what
/// counts on it is refused as [`Refused::NotReady`] until that is done.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct World {
    pub(crate) name: String,
    /// The plan in force: the parent of the next.
    pub(crate) target: u64,
    pub(crate) now: Nanoseconds,
    pub(crate) kinds: Vec<GpuKind>,
    pub(crate) nodes: Pages<NodeState>,
    pub(crate) gpus: Pages<GpuState>,
    pub(crate) domains: Arc<Vec<Domain>>,
    pub(crate) islands: Arc<Vec<String>>,
    pub(crate) pools: Vec<FabricPool>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) jobs: JobTable,
    #[serde(skip)]
    pub(crate) specs: stored::Specs,
    pub(crate) shares: crate::queues::Shares,
    pub(crate) arrivals: Arrivals,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) changes: Changes,
    pub(crate) members: members::Members,
    /// Actions that were ever begun.
    pub(crate) attempts: u64,
    pub(crate) ignored: Ignored,
    pub(crate) tempo: tempo::Tempo,
    /// Nodes that are closed after failures, until when.
    pub(crate) closed: Arc<BTreeSet<(Nanoseconds, NodeId)>>,
    pub(crate) known: Arc<churn::Known>,
    pub(crate) drift: Arc<BTreeMap<NodeId, Vec<Drift>>>,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct NodeState {
    pub node: Node,
    /// Free processor time in thousandths of a core.
    pub cpu_free: u64,
    /// Free memory in MiB.
    pub memory_free: u64,
    /// Its GPUs now: its own in the driver's order, then attached ones.
    pub gpus: Vec<GpuId>,
    /// GPUs of which nothing is held, that take work and are not cut.
    pub whole_free: u32,
    /// Thousandths of GPUs that nobody holds by whole GPUs or fractions, of those that take work and are
    /// not cut.
    pub milli_free: u32,
    /// Assignments that are taken on it.
    pub workers: u32,
    /// Thousandths of cores and MiB that those still have who were told to leave; free for plans.
    pub leaving_cpu: u64,
    pub leaving_memory: u64,
    /// Jobs that failed to start on it one after the other, and the last of them.
    pub failures: u32,
    pub failed_last: Option<JobId>,
    /// Until when it takes no work after failures.
    pub closed_until: Option<Nanoseconds>,
    /// Whether it is no longer of the fleet.
    pub left: bool,
    pub(super) fence: Option<Box<Fence>>,
    /// Where what is free on it is counted.
    pub(crate) counted: members::Counted,
    /// A hash of what is free on it and who holds the rest: nodes of one number that have the same are
    /// alike, in copies of a world too. What was computed from another one is stale.
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GpuState {
    pub gpu: FleetGpu,
    pub node: Option<NodeId>,
    pub link: Link,
    pub held: Tenancy,
    /// Instances that are being destroyed: their room counts as free for plans.
    pub going: Seldom<Instance>,
    /// Who was told to leave and may still be there, with what each had.
    pub leaving: Seldom<(JobId, Part)>,
    /// Whether MIG is being switched on or off.
    pub switching: bool,
    /// The last action that began on it, and when; and those that switch MIG and change its link.
    pub attempt: Attempt,
    pub begun: Nanoseconds,
    pub(super) switch_attempt: Attempt,
    pub(super) link_attempt: Attempt,
    /// Whether somebody is on it of whom nothing is known.
    pub stray: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Link {
    Here,
    /// On its way from its pool to its node; what is placed on it starts when it is there.
    Attaching,
    /// On its way back to its pool.
    Detaching,
    InPool,
    /// It is no longer of the fleet.
    Gone,
}

/// Who holds what of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Tenancy {
    Free,
    Whole(JobId),
    /// Several workers, by time. One way of sharing at a time.
    Shared {
        /// How they are kept apart.
        isolation: Isolation,
        /// Thousandths of its time that are free.
        milli_free: u32,
        /// Memory in MiB that is free; `None`: its memory is not known.
        memory_free: Option<u32>,
        /// Who has how much, in order.
        holders: Vec<Holder>,
    },
    /// It is cut into instances, by start, or MIG is on and there is none yet.
    Sliced(Vec<Instance>),
}

/// Who has how much of a shared GPU.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Holder {
    pub job: JobId,
    /// Thousandths of its time.
    pub milli: u32,
    pub memory_mib: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Instance {
    /// Its profile: the place in the kind's geometry.
    pub shape: u8,
    /// The memory slice at which it starts.
    pub start: u8,
    pub holder: Option<JobId>,
    /// Whether it can be used; not yet while it is being created.
    pub ready: bool,
    /// The action that created it, or that is destroying it.
    pub attempt: Attempt,
}

impl World {
    /// A world in which nothing runs.
    pub fn new(fleet: &Fleet) -> Self {
        let mut named = fleet.clone();
        named.name_uids();
        let fleet = &named;
        let gpus = fleet.gpus.iter().map(GpuState::new).collect();
        let mut world = Self {
            name: fleet.name.clone(),
            target: 0,
            now: Nanoseconds(0),
            kinds: fleet.kinds.clone(),
            nodes: fleet.nodes.iter().map(NodeState::new).collect(),
            gpus,
            domains: Arc::new(fleet.domains.clone()),
            islands: Arc::new(fleet.islands.clone()),
            pools: fleet.pools.clone(),
            queues: fleet.queues.clone(),
            reservations: fleet.reservations.clone(),
            shares: crate::queues::Shares::default(),
            jobs: JobTable::default(),
            specs: stored::Specs::default(),
            arrivals: Arrivals::default(),
            upkeep: Arc::default(),
            changes: Changes::new(fleet.nodes.len()),
            members: members::Members::default(),
            attempts: 0,
            ignored: Ignored::default(),
            tempo: tempo::Tempo::default(),
            closed: Arc::default(),
            known: Arc::default(),
            drift: Arc::default(),
        };
        let known = Arc::make_mut(&mut world.known);
        for (node, id) in fleet.nodes.iter().zip((0..).map(NodeId)) {
            known.note_node(&node.uid, id);
        }
        for (gpu, id) in fleet.gpus.iter().zip((0..).map(GpuId)) {
            known.note_gpu(&gpu.uid, id);
        }
        world.shares.sharing = fleet.sharing;
        world.rebook(Nanoseconds(0));
        for index in 0..world.nodes.len() {
            world.recount(NodeId(index as u32));
            world.enlist(NodeId(index as u32));
        }
        world
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the plan in force.
    pub const fn target(&self) -> u64 {
        self.target
    }

    /// The time of the last event.
    pub const fn now(&self) -> Nanoseconds {
        self.now
    }

    pub fn kinds(&self) -> &[GpuKind] {
        &self.kinds
    }

    pub fn kind(&self, id: KindId) -> Option<&GpuKind> {
        self.kinds.get(id.index())
    }

    pub const fn nodes(&self) -> &Pages<NodeState> {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&NodeState> {
        self.nodes.get(id.index())
    }

    pub const fn gpus(&self) -> &Pages<GpuState> {
        &self.gpus
    }

    pub fn gpu(&self, id: GpuId) -> Option<&GpuState> {
        self.gpus.get(id.index())
    }

    /// Racks, blocks, zones, by number.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// Names of islands, by number.
    pub fn islands(&self) -> &[String] {
        &self.islands
    }

    /// Fabric pools, by number.
    pub fn pools(&self) -> &[FabricPool] {
        &self.pools
    }

    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// GPUs reserved for queues.
    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// Jobs that wait or run, by number.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &JobState)> {
        self.jobs.iter().map(|(id, state)| (*id, state))
    }

    /// A job that waits or runs.
    pub fn job(&self, id: JobId) -> Option<&JobState> {
        self.jobs.get(id)
    }

    /// What has been asked for.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Which nodes changed last.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn domain_of(&self, node: NodeId, level: Level) -> Option<DomainId> {
        let mut next = self.node(node)?.node.domain;
        while let Some(id) = next {
            let domain = self.domains.get(id.index())?;
            if domain.level == level {
                return Some(id);
            }
            // Parents come before their children, so this ends.
            next = domain.parent.filter(|parent| *parent < id);
        }
        None
    }
}

/// Two nodes are alike when all but the count of changes is.
impl PartialEq for NodeState {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
            && self.cpu_free == other.cpu_free
            && self.memory_free == other.memory_free
            && self.gpus == other.gpus
            && self.whole_free == other.whole_free
            && self.milli_free == other.milli_free
            && self.workers == other.workers
            && self.leaving_cpu == other.leaving_cpu
            && self.leaving_memory == other.leaving_memory
            && self.failures == other.failures
            && self.failed_last == other.failed_last
            && self.closed_until == other.closed_until
            && self.left == other.left
            && self.fence == other.fence
    }
}

impl NodeState {
    fn new(node: &Node) -> Self {
        Self {
            cpu_free: node.cpu_milli,
            memory_free: node.memory_mib,
            gpus: node.gpus.clone(),
            whole_free: 0,
            milli_free: 0,
            workers: 0,
            leaving_cpu: 0,
            leaving_memory: 0,
            failures: 0,
            failed_last: None,
            closed_until: None,
            left: false,
            fence: None,
            counted: members::Counted::default(),
            revision: 0,
            node: node.clone(),
        }
    }
}

impl GpuState {
    fn new(gpu: &FleetGpu) -> Self {
        let (node, link) = match gpu.home {
            Home::Node(node) => (Some(node), Link::Here),
            Home::Pool(_) => (None, Link::InPool),
        };
        Self {
            node,
            link,
            held: if gpu.mig_on {
                Tenancy::Sliced(Vec::new())
            } else {
                Tenancy::Free
            },
            going: Seldom::new(),
            leaving: Seldom::new(),
            switching: false,
            attempt: Attempt::default(),
            begun: Nanoseconds(0),
            switch_attempt: Attempt::default(),
            link_attempt: Attempt::default(),
            stray: false,
            gpu: gpu.clone(),
        }
    }

    /// Whether something new may be placed on it.
    pub const fn takes_work(&self) -> bool {
        self.gpu.health.takes_work()
            && matches!(self.link, Link::Here | Link::Attaching)
            && !self.stray
    }

    /// Thousandths of its time that are free for whole GPUs and fractions.
    pub const fn milli_free(&self) -> u32 {
        match &self.held {
            Tenancy::Free => 1000,
            Tenancy::Shared { milli_free, .. } => *milli_free,
            Tenancy::Whole(_) | Tenancy::Sliced(_) => 0,
        }
    }
}

impl NodeState {
    /// Whether something new may be placed on it.
    pub const fn takes_work(&self) -> bool {
        matches!(self.node.health, Health::Up)
            && self.closed_until.is_none()
            && self.fence.is_none()
            && !self.left
    }
}
