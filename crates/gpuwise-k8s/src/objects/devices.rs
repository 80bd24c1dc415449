//! Dynamic resource allocation (`resource.k8s.io/v1`): what drivers offer, who claimed what.

use super::{
    meta::{listed, slim},
    pod::NodeTerms,
};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a driver offers of one pool, or a part of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourceSlice {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: SliceSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceSpec {
    pub driver: String,
    pub pool: Pool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    pub all_nodes: bool,
    /// The nodes that can reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeTerms>,
    pub per_device_node_selection: bool,
    #[serde(deserialize_with = "listed")]
    pub shared_counters: Vec<CounterSet>,
    #[serde(deserialize_with = "listed")]
    pub devices: Vec<Device>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    pub name: String,
    /// Slices of an older one no longer count.
    pub generation: i64,
    pub resource_slice_count: i64,
}

/// What several devices take from, such as the memory slices of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CounterSet {
    pub name: String,
    pub counters: BTreeMap<String, Measure>,
}

/// A quantity under `value`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measure {
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    pub name: String,
    /// Each under its type: `string`, `int`, `bool`, `version`, or lists of these.
    pub attributes: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    pub capacity: BTreeMap<String, Measure>,
    #[serde(deserialize_with = "listed")]
    pub consumes_counters: Vec<CounterUse>,
    #[serde(deserialize_with = "listed")]
    pub taints: Vec<DeviceTaint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeTerms>,
    pub all_nodes: bool,
    /// Several claims can have it, each a part of its capacity.
    pub allow_multiple_allocations: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterUse {
    pub counter_set: String,
    pub counters: BTreeMap<String, Measure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceTaint {
    pub key: String,
    pub value: String,
    /// `NoSchedule`, `NoExecute`, or `None`.
    pub effect: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceClass {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: DeviceClassSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    #[serde(deserialize_with = "listed")]
    pub selectors: Vec<Selector>,
    /// The extended resource that pods can ask it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cel: Option<Cel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cel {
    pub expression: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourceClaim {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ClaimSpec,
    #[serde(default)]
    pub status: ClaimStatus,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ClaimTemplate {
    #[serde(default, deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ClaimTemplateSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimTemplateSpec {
    pub spec: ClaimSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    pub devices: Devices,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Devices {
    #[serde(deserialize_with = "listed")]
    pub requests: Vec<DeviceRequest>,
}

/// `exactly` what, or the first of several that can be had.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactRequest>,
    #[serde(deserialize_with = "listed")]
    pub first_available: Vec<SubRequest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactRequest {
    pub device_class_name: String,
    #[serde(deserialize_with = "listed")]
    pub selectors: Vec<Selector>,
    /// `ExactCount` or `All`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Sees devices without holding them.
    pub admin_access: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubRequest {
    pub name: String,
    pub device_class_name: String,
    #[serde(deserialize_with = "listed")]
    pub selectors: Vec<Selector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    #[serde(deserialize_with = "listed")]
    pub reserved_for: Vec<Consumer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocation {
    pub devices: AllocationResult,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocationResult {
    #[serde(deserialize_with = "listed")]
    pub results: Vec<AllocatedDevice>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    pub request: String,
    pub driver: String,
    pub pool: String,
    pub device: String,
    pub admin_access: bool,
}

/// Who uses a claim: a pod, mostly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    pub api_group: String,
    pub resource: String,
    pub name: String,
    pub uid: String,
}
