//! Pods that are kept warm beside the replicas of a workload.

use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{
    ToSchema,
    openapi::{
        RefOr, Schema,
        extensions::ExtensionsBuilder,
        schema::{ObjectBuilder, SchemaType},
    },
};

/// How many there are of something: a number, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Spares {
    Count(i32),
    /// As many as the forecast wants until one could be started from nothing.
    Auto(Auto),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    Auto,
}

impl Spares {
    /// The number that is said; `None`: the forecast says it.
    pub const fn count(self) -> Option<i32> {
        match self {
            Self::Count(count) => Some(count),
            Self::Auto(Auto::Auto) => None,
        }
    }
}

/// A number or a word, as Kubernetes has it.
fn number_or_auto(about: &str) -> RefOr<Schema> {
    let both = ExtensionsBuilder::new().add("x-kubernetes-int-or-string", json!(true));
    let object = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some(about))
        .extensions(Some(both.build()));
    RefOr::T(Schema::Object(object.build()))
}

pub(super) fn warm() -> RefOr<Schema> {
    number_or_auto(
        "Pods that are kept warm beside the replicas, with weights loaded, to be replicas at once: so many, or `auto`: as many as the forecast wants until a pod that is started now would serve, those that serve and `maxReplicas` among them. Not set: none. 0 takes away those that there were.",
    )
}

pub(super) fn spare_nodes() -> RefOr<Schema> {
    number_or_auto(
        "For how many replicas more an autoscaler of nodes is to keep room, by a CapacityBuffer: so many, or `auto`, as of `warm`. Not set: none is kept. 0 keeps none any more.",
    )
}

/// Pods that are kept warm, as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WarmStatus {
    /// So many are wanted.
    pub wanted: i32,
    /// So many are ready to be replicas, those that sleep among them.
    pub ready: i32,
    /// So many of these sleep.
    pub asleep: i32,
    /// So many have no GPU: others have what they had, or would have. Replicas that come instead start from nothing.
    pub lent: i32,
    /// Why so many are wanted.
    pub why: String,
}
