//! `GpuQuota`: what namespaces together may take of GPUs.

use super::{Column, Condition, Resource, Rule};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What these namespaces may take together. Who gets a gate counts, and who runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuQuotaSpec {
    /// Namespaces that share it; a namespace is in one quota.
    #[schema(min_items = 1, max_items = 256)]
    pub namespaces: Vec<String>,
    /// GPUs that are theirs.
    #[schema(minimum = 0, maximum = 1000000)]
    pub gpus: i64,
    /// GPUs of others that they may take beyond that while those do not use them; not set: as many as are free.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000000)]
    pub borrowing: Option<i64>,
    /// GPUs of theirs that others may take while they do not use them; not set: all.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000000)]
    pub lending: Option<i64>,
    /// Weight when what is left over is shared, beside others' (`order: fair-share`); not set: 1.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000000)]
    pub weight: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuQuotaStatus {
    pub observed_generation: i64,
    /// GPUs that its namespaces hold now.
    pub used: i64,
    /// `Accepted`: it counts.
    pub conditions: Vec<Condition>,
}

impl Resource for GpuQuotaSpec {
    type Status = GpuQuotaStatus;
    const KIND: &'static str = "GpuQuota";
    const PLURAL: &'static str = "gpuquotas";
    const SINGULAR: &'static str = "gpuquota";
    const SHORT: &'static str = "gq";
    const NAMESPACED: bool = false;
    const ABOUT: &'static str = "What namespaces together may take of the cluster's GPUs.";
    const RULES: &'static [Rule] = &[Rule {
        at: "spec",
        rule: "!has(self.lending) || self.lending <= self.gpus",
        message: "no more can be lent than is theirs: lower `lending`, or raise `gpus`",
    }];
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "GPUs",
            kind: "integer",
            path: ".spec.gpus",
        },
        Column {
            name: "Used",
            kind: "integer",
            path: ".status.used",
        },
        Column {
            name: "Accepted",
            kind: "string",
            path: ".status.conditions[?(@.type==\"Accepted\")].status",
        },
    ];
}
