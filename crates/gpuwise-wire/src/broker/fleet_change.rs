//! How a fleet changes while a broker runs.

use crate::live::{HealthDocument, QueueDocument, SchedulingDocument, SharingDocument};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a fleet file said that the broker took over: the next file is compared with it, so that what commands changed
/// meanwhile stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FiledDocument {
    /// Nodes by their lasting ids.
    pub nodes: BTreeMap<String, FiledNodeDocument>,
    /// Lasting ids of pooled GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pooled: Vec<String>,
    /// What an hour costs, by the name of the GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<QueueDocument>,
    /// What is kept, by the names of reservations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<SchedulingDocument>,
}

/// What a fleet file said of a node and what changes otherwise, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FiledNodeDocument {
    pub health: HealthDocument,
    /// GPUs on which MIG was to be on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_on: Vec<u32>,
    /// GPUs that are not up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_health: BTreeMap<u32, HealthDocument>,
}

/// What of a fleet changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetPart {
    Fleet,
    Node,
    PooledGpu,
    Gpu,
    Price,
    /// A rack, block or zone.
    Domain,
    /// A fabric pool.
    Pool,
    Tenant,
    Reservation,
    Sharing,
    Scheduling,
}

impl FleetPart {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Node => "node",
            Self::PooledGpu => "pooled GPU",
            Self::Gpu => "GPU",
            Self::Price => "price",
            Self::Domain => "domain",
            Self::Pool => "pool",
            Self::Tenant => "tenant",
            Self::Reservation => "reservation",
            Self::Sharing => "sharing",
            Self::Scheduling => "scheduling",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

impl ChangeKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// A difference between a fleet file and the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetChange {
    pub part: FleetPart,
    pub name: String,
    pub change: ChangeKind,
    /// What it is, or what it was and is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it is not applied, and what to do; left out: it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetChangeList {
    /// Whether what is not refused was applied; no: it was only asked for.
    pub applied: bool,
    pub items: Vec<FleetChange>,
}

/// What is to become of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeVerb {
    /// Nothing new is placed on it.
    Cordon,
    /// It takes new leases again.
    Uncordon,
    /// Nothing new is placed on it, and leases there that may be preempted are, and start elsewhere.
    Drain,
    /// It is off, or cut from its network and storage: what it ran has ended, and may start elsewhere.
    Fence,
}

impl NodeVerb {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Drain => "drain",
            Self::Fence => "fence",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeAsk {
    #[serde(rename = "do")]
    pub verb: NodeVerb,
    /// With `drain`: the other leases there are told to end.
    #[serde(default)]
    pub end: bool,
}
