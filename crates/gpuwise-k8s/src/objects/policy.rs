//! What limits pods: quotas of a namespace, disruption budgets, gangs.

use super::{
    meta::{listed, slim},
    node::Condition,
    pod::Expression,
};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A ResourceQuota.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quota {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: QuotaSpec,
    #[serde(default)]
    pub status: QuotaStatus,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaSpec {
    pub hard: BTreeMap<String, String>,
    #[serde(deserialize_with = "listed")]
    pub scopes: Vec<String>,
    /// Present: it counts some pods only.
    #[serde(skip_serializing)]
    pub scope_selector: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: BudgetSpec,
    #[serde(default)]
    pub status: BudgetStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrText>,
}

/// A number, or a share such as `50%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrText {
    Int(i64),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "listed")]
    pub match_expressions: Vec<Expression>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A gang of `scheduling.k8s.io`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PodGroup {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodGroupSpec,
    #[serde(default)]
    pub status: PodGroupStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupSpec {
    pub scheduling_policy: SchedulingPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_constraints: Option<SchedulingConstraints>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<Gang>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gang {
    /// Bound together or not at all.
    pub min_count: u32,
}

/// In which place all of a gang are, by a label of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulingConstraints {
    #[serde(deserialize_with = "listed")]
    pub topology: Vec<TopologyKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopologyKey {
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodGroupStatus {
    #[serde(deserialize_with = "listed")]
    pub conditions: Vec<Condition>,
}
