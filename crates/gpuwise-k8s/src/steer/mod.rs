//! From what a cluster holds to what is to be written: gates taken off, nodes named; pure.
//!
//! The kernel decides, as for `gpuwise place` and `serve`: nodes are its fleet, pods that are bound its running
//! jobs, pods that wait its queue. It is made anew from what was seen at each look, so that a missed event, a
//! restart or another operator changes nothing but when. kube-scheduler binds: only the node that a plan names
//! counts, and which of a node's GPUs a pod gets is the device plugin's to say.

mod ask;
mod constraint;
mod decision;
mod fleet;
mod gangs;
#[cfg(test)]
mod tests;
mod world;

pub use ask::{
    Ask, GANG, GANG_SIZE, GATE, GPU, GangKind, GangName, Names, PRODUCT, STEER, Said, Unclear,
    WITHIN, ask, is_accelerator,
};
pub use constraint::{Constraint, Operator, Requirement, Taint, Toleration};
pub use decision::{Decision, Placed, Waits, decide};

use gpuwise_domain::placement::{Backfill, Order};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeMap, sync::Arc};

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
}

/// What is decided by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    pub order: Option<Order>,
    pub backfill: Option<Backfill>,
    pub placement: Option<String>,
    pub starvation: Option<Nanoseconds>,
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
}

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
}
