//! Who holds GPUs of a cluster of Kubernetes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who holds GPUs of a cluster, who waits for some, and what that costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterTopAnswer {
    /// Whole GPUs and devices of the cluster; parts that are resources of their own are not counted.
    pub gpus: u64,
    /// Of them: those that pods hold.
    pub held: u64,
    /// What pods without a node ask for.
    pub pending: u64,
    /// What is held costs an hour, with its currency; left out: there is no price book, or some of it has no price in
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<String>,
    pub nodes: Vec<ClusterNodeUsage>,
    pub workloads: Vec<ClusterWorkloadUsage>,
}

/// What a node has of one kind of GPU, or of parts of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterNodeUsage {
    pub node: String,
    /// As the node is labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// A resource such as `nvidia.com/gpu`; `devices`: GPUs by Dynamic Resource Allocation.
    pub resource: String,
    pub allocatable: u64,
    pub held: u64,
    pub free: u64,
    /// Whether it is ready, and not cordoned.
    pub schedulable: bool,
}

/// What a workload holds of one kind of GPU, and waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterWorkloadUsage {
    pub namespace: String,
    /// `Deployment`, `Job`; `Pod`: one that nothing made.
    pub kind: String,
    pub name: String,
    pub resource: String,
    pub pods: u64,
    pub held: u64,
    /// What of that is held by pods that are kept warm for a GpuWorkload.
    #[serde(default)]
    pub warm: u64,
    /// Asked for by pods without a node.
    pub pending: u64,
    /// What it holds costs an hour, with its currency; left out: some of it has no price, or is a part of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<String>,
}
