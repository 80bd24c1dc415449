//! Our custom resources: their types, schemas and definitions.
//!
//! A field is declared once, as a field of a type here; the definition that a cluster gets, the reference and
//! what the operator reads all come from it.

mod condition;
mod definition;
pub(crate) mod lacks;
mod policy;
mod price_book;
mod quota;
mod structural;
mod tiering;
mod warm;
mod workload;

pub use condition::{Condition, Status, settled};
pub use definition::{definitions, reference};
pub use policy::{
    BackfillName, GpuPolicySpec, GpuPolicyStatus, OrderName, PolicyCordon, PolicyMoves,
    PreemptionName,
};
pub use price_book::{GpuPrice, GpuPriceBookSpec, GpuPriceBookStatus};
pub use quota::{GpuQuotaSpec, GpuQuotaStatus};
pub use tiering::{
    Avoided, Change, ChangeReason, Phase, Saved, ScaledBy, TieringMode, WorkloadScaling,
    WorkloadTiering,
};
pub use warm::{Auto, Spares, WarmStatus};
pub use workload::{Decided, GpuWorkloadSpec, GpuWorkloadStatus, WorkloadSlo, WorkloadTraffic};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The API group of all of them.
pub const GROUP: &str = "gpuwise.dev";
pub const VERSION: &str = "v1alpha1";
/// The condition of a pod that is to leave its place.
pub const LEAVING: &str = "gpuwise.dev/Leaving";

/// A rule in CEL that the API server holds objects to.
pub struct Rule {
    /// Where in the object: names of fields, with slashes; empty: the object itself.
    pub at: &'static str,
    pub rule: &'static str,
    /// What is said to who breaks it.
    pub message: &'static str,
}

/// A column of `kubectl get`.
pub struct Column {
    pub name: &'static str,
    /// As definitions call it: `string`, `integer`, `date`.
    pub kind: &'static str,
    pub path: &'static str,
}

/// What one kind of our objects is called, and what holds of it.
pub trait Resource: Serialize + for<'de> Deserialize<'de> + ToSchema {
    type Status: Serialize + for<'de> Deserialize<'de> + ToSchema + Default;
    const KIND: &'static str;
    const PLURAL: &'static str;
    const SINGULAR: &'static str;
    const SHORT: &'static str;
    /// Whether it lies in a namespace.
    const NAMESPACED: bool;
    /// What it is for, in a sentence or two.
    const ABOUT: &'static str;
    const RULES: &'static [Rule];
    const COLUMNS: &'static [Column];
    /// Paths of replicas wanted, replicas there, and of the selector of pods; `None`: it has no scale.
    const SCALE: Option<[&'static str; 3]> = None;
}

/// An object of ours as the API gives it.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "T: Resource")]
pub struct Object<T: Resource> {
    pub metadata: ObjectMeta,
    pub spec: T,
    #[serde(default)]
    pub status: Option<Value>,
}

/// What is read of an object's metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    pub name: String,
    pub namespace: Option<String>,
    pub uid: String,
    pub generation: i64,
    pub resource_version: String,
    pub deletion_timestamp: Option<String>,
    pub creation_timestamp: Option<String>,
    pub annotations: BTreeMap<String, String>,
}
