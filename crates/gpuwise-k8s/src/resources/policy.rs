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
    const RULES: &'static [Rule] = &[Rule {
        at: "",
        rule: "self.metadata.name == 'default'",
        message: "one policy counts for a cluster: it is named `default`",
    }];
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
