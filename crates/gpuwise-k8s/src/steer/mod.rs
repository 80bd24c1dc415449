//! From what a cluster holds to what is to be written: gates taken off, nodes named; pure.
//!
//! The kernel decides, as for `gpuwise place` and `serve`: nodes are its fleet, pods that are bound its running
//! jobs, pods that wait its queue. It is made from what was seen at each look, so that a missed event, a restart or
//! another operator changes nothing but when; of the last look is kept what would be made alike ([`Kept`]). kube-scheduler binds: only the node that a plan names
//! counts, and which of a node's GPUs a pod gets is the device plugin's to say.

#[cfg(test)]
mod acts_tests;
mod adopt;
mod ask;
mod consolidate;
mod constraint;
mod cordon;
mod cut;
mod decision;
mod devices;
mod fleet;
mod gangs;
mod holders;
mod kept;
#[cfg(test)]
mod kept_tests;
mod leave;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod moves_tests;
#[cfg(test)]
mod nodes_tests;
mod promised;
mod room;
mod rounds;
mod rules;
mod surge;
#[cfg(test)]
mod tests;
mod turns;
mod warm;
#[cfg(test)]
mod warm_tests;
mod words;
mod world;

pub use ask::{
    Ask, GANG, GANG_SIZE, GATE, GPU, GangKind, GangName, Names, PREEMPTIBLE, PRODUCT, SLEEPS_AT,
    STEER, Said, Unclear, WARM, WITHIN, ask, is_accelerator,
};
pub use constraint::{Constraint, Operator, Requirement, Taint, Toleration};
pub use cordon::{Cordons, Health, Judged, SUSPECT, judge};
pub use cut::{CUTTING, Cut, MIG_CONFIG, MIG_STATE, Stage, cut, stages};
pub use decision::{Decision, Placed, Waits};
pub(crate) use devices::to_scheduler;
pub use devices::{Claims, Counter, Device, Devices, Pool};
pub use kept::Kept;
pub use room::{Leaver, Leaves, Room};
pub use rounds::{decide, decide_after};
pub use surge::{Step, Surge};
pub use turns::Turn;

use gpuwise_domain::placement::{Backfill, Order};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All that a decision is made from.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub nodes: Vec<Arc<Node>>,
    pub pods: Vec<Arc<Pod>>,
    /// How many pods of a PodGroup start together, by namespace and name.
    pub groups: BTreeMap<(String, String), u32>,
    pub quotas: Vec<Quota>,
    pub rules: Rules,
    /// What an hour of a product costs, in millionths of a currency.
    pub prices: BTreeMap<String, i64>,
    /// ISO 4217 of the prices.
    pub currency: Option<String>,
    /// Deployments that have one pod more than was asked, for a move.
    pub surges: Vec<Surge>,
    /// StatefulSets of which a pod has its turn to move.
    pub turns: Vec<Turn>,
    /// Pods that a PodDisruptionBudget keeps now, by uid.
    pub kept: BTreeSet<String>,
    /// Pods that a PodDisruptionBudget covers, by uid.
    pub budgeted: BTreeSet<String>,
    /// What the API server said last where a pod could not be evicted, by the pod's uid.
    pub refused: BTreeMap<String, String>,
    /// Profiles of MIG by product, and how many of each one GPU is cut into at most.
    pub boards: Arc<BTreeMap<String, BTreeMap<String, u32>>>,
    /// Devices that pods ask by claims.
    pub devices: Arc<Devices>,
    /// GpuWorkloads whose pods become others, by namespace and name: none of their warm pods becomes a replica now.
    pub changing: BTreeSet<(String, String)>,
}

impl Seen {
    /// Whether nothing is to be decided where nobody waits: no pod is leaving or moving, and none is to.
    pub fn is_quiet(&self) -> bool {
        let moves = self.rules.moves.is_some_and(|moves| moves.consolidates);
        let begun = |pod: &Arc<Pod>| pod.standing.leaves || pod.standing.moves.is_some();
        let under_way = !self.surges.is_empty() || !self.turns.is_empty();
        !moves && !under_way && !self.pods.iter().any(begun)
    }

    /// Where in [`Seen::pods`] those are that wait or move, by uid: of the others nobody asks.
    fn places(&self) -> BTreeMap<&str, usize> {
        let all = self.pods.iter().zip(0..);
        let asked = all.filter(|(pod, _)| pod.waits() || pod.standing.moves.is_some());
        asked.map(|(pod, at)| (pod.uid.as_str(), at)).collect()
    }
}

/// What is decided by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    pub order: Option<Order>,
    pub backfill: Option<Backfill>,
    pub placement: Option<String>,
    pub starvation: Option<Nanoseconds>,
    pub preemption: Preempts,
    /// Whether quotas take back what they have lent.
    pub reclaims: bool,
    pub moves: Option<Moves>,
    pub repartitions: bool,
    pub cordons: Option<Cordons>,
}

/// Which pods may be evicted for others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preempts {
    #[default]
    Never,
    /// Who says that it may be.
    Annotated,
    /// Who does not say that it may not be, and is made again.
    LowerPriority,
}

/// How pods of Deployments and StatefulSets are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moves {
    /// So many may begin now.
    pub left: u32,
    /// Whether they also move while nobody waits.
    pub consolidates: bool,
}

/// What namespaces may take together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    pub name: String,
    pub namespaces: Vec<String>,
    pub gpus: u64,
    pub borrowing: Option<u64>,
    pub lending: Option<u64>,
    pub weight: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    pub name: String,
    pub labels: Names,
    pub taints: Vec<Taint>,
    /// Ready, and not cordoned.
    pub open: bool,
    /// Thousandths of cores that pods may have.
    pub cpu_milli: u64,
    pub memory_mib: u64,
    /// Resources that device plugins give, and how many.
    pub accelerators: BTreeMap<String, u32>,
    /// What its GPUs are suspected of, a reason each.
    pub ailments: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Its resourceVersion: what is written counts only if nobody was faster.
    pub version: String,
    /// Since 1970.
    pub created: Nanoseconds,
    /// When the webhook gated it, as it wrote it there.
    pub gated_at: Option<jiff::Timestamp>,
    /// The uid of what controls it; empty: nobody does.
    pub owner: String,
    pub priority: i32,
    /// `None`: no GPU.
    pub ask: Option<Ask>,
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub place: Place,
    pub constraint: Arc<Constraint>,
    pub claims: Claims,
    pub standing: Standing,
}

/// Whether a pod may leave its place, and where it is to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that the API tells"
)]
pub struct Standing {
    /// The node on which room is made for it.
    pub nominated: Option<String>,
    /// It is to leave, as we said of it.
    pub leaves: bool,
    /// It is being deleted.
    pub ends: bool,
    pub ready: bool,
    /// Since when it runs; since 1970.
    pub started: Option<Nanoseconds>,
    /// It takes nobody's place.
    pub never_preempts: bool,
    /// The Deployment that it is of.
    pub deployment: Option<String>,
    /// The StatefulSet that it is of and could move with, and its ordinal.
    pub set: Option<(String, u32)>,
    /// Where it starts anew, one more of its Deployment before it ends, and since when; since 1970.
    pub moves: Option<(String, Nanoseconds)>,
    /// Its controller ends it before all others.
    pub cheapest: bool,
    /// The uid of the pod that moves, in whose stead it was started.
    pub replaces: Option<String>,
    /// Its place was decided here.
    pub ours: bool,
    /// The GpuWorkload of its namespace that it is of, and how.
    pub serves: Option<Serves>,
}

/// What a pod is to its GpuWorkload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    Replica(String),
    /// It serves nobody yet, and its GPUs are lent: it takes nobody's place, and leaves its own for anybody.
    Warm(String),
}

/// The priority of pods that are warm, whatever their class says: everybody goes before them.
pub const WARM_PRIORITY: i32 = i32::MIN;

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It waits behind our gate.
    Gated,
    /// It waits without a gate of ours: what we say is a proposal.
    Free,
    /// Its gate is off and it is to go there.
    Sent(String),
    Bound(String),
}

impl Place {
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Sent(node) | Self::Bound(node) => Some(node),
            Self::Gated | Self::Free => None,
        }
    }
}

impl Pod {
    pub const fn waits(&self) -> bool {
        matches!(self.place, Place::Gated | Place::Free)
    }

    pub const fn is_warm(&self) -> bool {
        matches!(self.standing.serves, Some(Serves::Warm(_)))
    }
}
