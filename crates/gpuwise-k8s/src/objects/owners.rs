//! What pods are made by: of these only metadata is read, and only metadata is sent.

use super::meta::slim;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

macro_rules! owner {
    ($($name:ident),*) => {
        $(
            #[doc = concat!("Metadata of a ", stringify!($name), ".")]
            #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
            pub struct $name {
                #[serde(default, deserialize_with = "slim")]
                pub metadata: ObjectMeta,
            }
        )*
    };
}

owner!(ReplicaSet, Deployment, StatefulSet, Job, LeaderWorkerSet);
