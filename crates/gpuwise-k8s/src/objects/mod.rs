//! Objects of the API as far as they are read here: a pod in some hundred bytes, not in ten thousand.
//!
//! Each is what serde picks from the JSON of a server, so that k8s-openapi's own pod, with all its
//! volumes and probes, is never made. They do for kube's `Api` and watchers.

mod devices;
mod meta;
mod node;
mod owners;
mod pod;
mod policy;
mod quantity;

pub use devices::{
    AllocatedDevice, Allocation, AllocationResult, Cel, ClaimSpec, ClaimStatus, ClaimTemplate,
    ClaimTemplateSpec, Consumer, CounterSet, CounterUse, Device, DeviceClass, DeviceClassSpec,
    DeviceRequest, DeviceTaint, Devices, ExactRequest, Measure, Pool, ResourceClaim, ResourceSlice,
    Selector, SliceSpec, SubRequest,
};
pub use node::{Condition, Node, NodeSpec, NodeStatus, Taint};
pub use owners::{Deployment, Job, LeaderWorkerSet, ReplicaSet, StatefulSet};
pub use pod::{
    Affinity, ClaimStatusOf, Container, ContainerState, ContainerStatus, Expression, ExtendedClaim,
    Gate, NodeAffinity, NodeTerms, Pod, PodClaim, PodSpec, PodStatus, Ran, Resources,
    SchedulingGroup, Term, Toleration,
};
pub use policy::{
    Budget, BudgetSpec, BudgetStatus, Gang, IntOrText, LabelSelector, PodGroup, PodGroupSpec,
    PodGroupStatus, Quota, QuotaSpec, QuotaStatus, SchedulingConstraints, SchedulingPolicy,
    TopologyKey,
};
pub use quantity::{QuantityError, milli, whole};

use kube::core::{ClusterResourceScope, NamespaceResourceScope};

/// Says of a type where the API has it. `metadata` after the names: of these only metadata is asked for.
macro_rules! resource {
    ($type:ty, $scope:ty, $group:literal, $version:literal, $kind:literal, $plural:literal) => {
        resource!($type, $scope, $group, $version, $kind, $plural, false);
    };
    ($type:ty, $scope:ty, $group:literal, $version:literal, $kind:literal, $plural:literal, $metadata:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn metadata_api() -> bool {
                $metadata
            }
            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

type Cluster = ClusterResourceScope;
type Namespaced = NamespaceResourceScope;

resource!(Node, Cluster, "", "v1", "Node", "nodes");
resource!(Pod, Namespaced, "", "v1", "Pod", "pods");
resource!(
    Quota,
    Namespaced,
    "",
    "v1",
    "ResourceQuota",
    "resourcequotas"
);
resource!(
    Budget,
    Namespaced,
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets"
);
resource!(
    PodGroup,
    Namespaced,
    "scheduling.k8s.io",
    "v1beta1",
    "PodGroup",
    "podgroups"
);
resource!(
    ResourceSlice,
    Cluster,
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    "resourceslices"
);
resource!(
    DeviceClass,
    Cluster,
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses"
);
resource!(
    ResourceClaim,
    Namespaced,
    "resource.k8s.io",
    "v1",
    "ResourceClaim",
    "resourceclaims"
);
resource!(
    ClaimTemplate,
    Namespaced,
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates"
);
resource!(
    ReplicaSet,
    Namespaced,
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    true
);
resource!(
    Deployment,
    Namespaced,
    "apps",
    "v1",
    "Deployment",
    "deployments",
    true
);
resource!(
    StatefulSet,
    Namespaced,
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    true
);
resource!(Job, Namespaced, "batch", "v1", "Job", "jobs", true);
resource!(
    LeaderWorkerSet,
    Namespaced,
    "leaderworkerset.x-k8s.io",
    "v1",
    "LeaderWorkerSet",
    "leaderworkersets",
    true
);
