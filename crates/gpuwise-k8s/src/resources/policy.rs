//! `GpuPolicy`: how those who wait are taken in turn, and on which nodes they are placed.

use super::{Column, Condition, Resource, Rule};
use gpuwise_domain::placement::{Backfill, Order};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is decided by. What is left out is as usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuPolicySpec {
    /// Who goes first; usually `priority`: by the priority of the pod, then as they came.
    pub order: Option<OrderName>,
    /// Who may go ahead of one who finds no place; usually `any`.
    pub backfill: Option<BackfillName>,
    /// Which of the nodes that fit is taken: a name of `gpuwise place --policy`; usually the first of them.
    #[schema(max_length = 63)]
    pub placement: Option<String>,
    /// Seconds after which who waits goes first, and its start is kept free; not set: never.
    #[schema(minimum = 1, maximum = 31536000)]
    pub starvation_seconds: Option<i64>,
    /// Which pods are evicted for pods of higher priority; usually `never`.
    pub preemption: Option<PreemptionName>,
    /// Whether a GpuQuota takes back what it has lent by evicting those who borrowed it; needs `preemption`.
    pub reclaim: Option<bool>,
    /// Pods of Deployments are moved to make room, one more of them started first; not set: none is.
    pub moves: Option<PolicyMoves>,
    /// Whether nodes are cut anew by NVIDIA's MIG manager for pods that ask for MIG instances or whole GPUs.
    pub repartition: Option<bool>,
    /// Nodes whose GPUs are suspect take no more pods; not set: they do.
    pub cordon: Option<PolicyCordon>,
}

/// How pods of Deployments are moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyMoves {
    /// Moves that begin in an hour at most; not set: 12.
    #[schema(minimum = 1, maximum = 100000)]
    pub per_hour: Option<i64>,
    /// Whether pods also move while nobody waits, so that larger pods find room later.
    pub consolidate: Option<bool>,
}

/// When a node counts as suspect, and how many may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyCordon {
    /// Seconds for which it must have been suspect; not set: 60.
    #[schema(minimum = 0, maximum = 86400)]
    pub after_seconds: Option<i64>,
    /// Seconds for which it must have been well again; not set: 600.
    #[schema(minimum = 0, maximum = 604800)]
    pub well_seconds: Option<i64>,
    /// Percent of the nodes with GPUs that are cordoned at most; not set: 20.
    #[schema(minimum = 1, maximum = 100)]
    pub most_percent: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionName {
    /// Nobody is evicted.
    Never,
    /// Pods with the annotation `gpuwise.dev/preemptible: "true"`.
    Annotated,
    /// All but those with the annotation `gpuwise.dev/preemptible: "false"` and those that nothing would make again.
    LowerPriority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderName {
    Fifo,
    Priority,
    LeastServed,
    FairShare,
    FairTree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackfillName {
    None,
    Any,
    Easy,
    Conservative,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Fifo => Self::Arrival,
            OrderName::Priority => Self::Priority,
            OrderName::LeastServed => Self::LeastServed,
            OrderName::FairShare => Self::Share,
            OrderName::FairTree => Self::FairTree,
        }
    }
}

impl From<BackfillName> for Backfill {
    fn from(name: BackfillName) -> Self {
        match name {
            BackfillName::None => Self::None,
            BackfillName::Any => Self::Any,
            BackfillName::Easy => Self::Easy,
            BackfillName::Conservative => Self::Conservative,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuPolicyStatus {
    pub observed_generation: i64,
    /// `Accepted`: it is what is decided by.
    pub conditions: Vec<Condition>,
}

impl Resource for GpuPolicySpec {
    type Status = GpuPolicyStatus;
    const KIND: &'static str = "GpuPolicy";
    const PLURAL: &'static str = "gpupolicies";
    const SINGULAR: &'static str = "gpupolicy";
    const SHORT: &'static str = "gpol";
    const NAMESPACED: bool = false;
    const ABOUT: &'static str =
        "How those who wait for GPUs are taken in turn, and which of the nodes that fit is taken.";
    const RULES: &'static [Rule] = &[
        Rule {
            at: "",
            rule: "self.metadata.name == 'default'",
            message: "one policy counts for a cluster: it is named `default`",
        },
        Rule {
            at: "spec",
            rule: "!has(self.reclaim) || !self.reclaim || (has(self.preemption) && self.preemption != 'never')",
            message: "what was lent is taken back by evicting: set `preemption` to `annotated` or `lower-priority`",
        },
    ];
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "Order",
            kind: "string",
            path: ".spec.order",
        },
        Column {
            name: "Placement",
            kind: "string",
            path: ".spec.placement",
        },
        Column {
            name: "Accepted",
            kind: "string",
            path: ".status.conditions[?(@.type==\"Accepted\")].status",
        },
    ];
}
