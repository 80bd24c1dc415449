//! Kinds of objects that an inventory is made of.

/// Kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Nodes,
    Pods,
    ReplicaSets,
    StatefulSets,
    Jobs,
    Quotas,
    Budgets,
    PodGroups,
    Slices,
    Classes,
    Claims,
    Templates,
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::Nodes,
        Self::Pods,
        Self::ReplicaSets,
        Self::StatefulSets,
        Self::Jobs,
        Self::Quotas,
        Self::Budgets,
        Self::PodGroups,
        Self::Slices,
        Self::Classes,
        Self::Claims,
        Self::Templates,
    ];

    /// As the API's paths and roles have it.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::ReplicaSets => "replicasets",
            Self::StatefulSets => "statefulsets",
            Self::Jobs => "jobs",
            Self::Quotas => "resourcequotas",
            Self::Budgets => "poddisruptionbudgets",
            Self::PodGroups => "podgroups",
            Self::Slices => "resourceslices",
            Self::Classes => "deviceclasses",
            Self::Claims => "resourceclaims",
            Self::Templates => "resourceclaimtemplates",
        }
    }

    /// The group of the API, empty for the core.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Nodes | Self::Pods | Self::Quotas => "",
            Self::ReplicaSets | Self::StatefulSets => "apps",
            Self::Jobs => "batch",
            Self::Budgets => "policy",
            Self::PodGroups => "scheduling.k8s.io",
            Self::Slices | Self::Classes | Self::Claims | Self::Templates => "resource.k8s.io",
        }
    }

    /// Without these there is no inventory; others a cluster may lack, or not let us see.
    pub const fn needed(self) -> bool {
        matches!(self, Self::Nodes | Self::Pods)
    }
}
