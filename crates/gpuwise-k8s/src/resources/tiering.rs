//! What of a workload follows what is measured: its replicas, and its GPU.

use super::{Decided, Spares};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Replicas that follow what comes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadScaling {
    /// Replicas at least; not set: none where nothing comes.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10000)]
    pub min_replicas: Option<i32>,
    /// Replicas at most.
    #[schema(minimum = 1, maximum = 10000)]
    pub max_replicas: i32,
    /// PromQL of requests a second that come for it, which must be there while it has no replica, such as a gateway's.
    #[schema(min_length = 1, max_length = 4096)]
    pub query: String,
    /// Who writes the number of replicas; not set: the operator.
    #[serde(default)]
    pub by: Option<ScaledBy>,
    /// Seconds in which nothing must have come before there are no replicas; not set: 300.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 604800)]
    pub idle_seconds: Option<i64>,
    /// Seconds in which fewer must be enough before there are fewer; not set: 300.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 86400)]
    pub hold_seconds: Option<i64>,
    /// Pods that are kept warm beside the replicas.
    #[serde(default)]
    #[schema(schema_with = super::warm::warm)]
    pub warm: Option<Spares>,
    /// With `warm: auto`, so many at least; not set: none where the forecast wants none.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000)]
    pub min_warm: Option<i32>,
    /// With `warm: auto`, so many at most; not set: `maxReplicas`.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1000)]
    pub max_warm: Option<i32>,
    /// Whether pods that find no room have the GPUs of warm ones meanwhile; not set: they do.
    #[serde(default)]
    pub lend: Option<bool>,
    /// Whether engines of warm pods sleep until they are needed, where they can (vLLM): their weights and cache leave
    /// the GPUs, which the pods hold all the same. Not set: they are awake.
    #[serde(default)]
    pub sleep: Option<bool>,
    /// For how many replicas more an autoscaler of nodes keeps room.
    #[serde(default)]
    #[schema(schema_with = super::warm::spare_nodes)]
    pub spare_nodes: Option<Spares>,
}

impl WorkloadScaling {
    /// How many of `forecast` pods are to be warm; `None`: none are kept, or nobody knows yet.
    pub fn warm_of(&self, forecast: Option<u32>) -> Option<u32> {
        let number = |count: i32| u32::try_from(count).unwrap_or_default();
        match self.warm? {
            Spares::Count(count) => Some(number(count)),
            Spares::Auto(_) => {
                let least = number(self.min_warm.unwrap_or(0));
                let most = number(self.max_warm.unwrap_or(self.max_replicas));
                let forecast = forecast.or(self.min_warm.map(number));
                Some(forecast?.clamp(least, most.max(least)))
            }
        }
    }

    /// Whether the forecast says how many pods are warm, or for how many nodes are kept.
    pub fn is_forecast(&self) -> bool {
        let auto = |spares: Option<Spares>| spares.is_some_and(|one| one.count().is_none());
        auto(self.warm) || auto(self.spare_nodes)
    }
}

/// Who writes the number of replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScaledBy {
    /// The operator, by the query (`--prometheus`).
    #[default]
    Operator,
    /// KEDA, which asks `gpuwise scale serve` (`--scaler`).
    Keda,
    /// Kubernetes' own autoscaler, by external metrics of `gpuwise scale serve` (`--scaler`).
    ExternalMetrics,
}

/// Another GPU, slice or number of replicas, by what is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadTiering {
    /// What is done of what an audit says.
    pub mode: TieringMode,
    /// Seconds in which the SLO is watched once a change is rolled out; not set: 600.
    #[schema(minimum = 1, maximum = 604800)]
    pub verify_seconds: Option<i64>,
    /// Seconds in which a change must be rolled out, or is taken back; not set: 1860, the 30 minutes that an engine
    /// has to start and one more.
    #[schema(minimum = 1, maximum = 86400)]
    pub rollout_seconds: Option<i64>,
    /// Seconds for which a GPU on which the SLO was missed is not taken again; not set: a week.
    #[schema(minimum = 1, maximum = 31536000)]
    pub avoid_seconds: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TieringMode {
    /// Nothing is looked at.
    Off,
    /// It is said in the condition `Tiered`.
    #[default]
    Propose,
    /// It is done, where the operator acts.
    Auto,
}

/// A change that is on its way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Change {
    pub phase: Phase,
    /// When this phase began (RFC 3339).
    pub since: String,
    /// The plan that began it.
    pub plan: String,
    pub why: ChangeReason,
    /// Looks of this phase in which the SLO could be told.
    pub told: i32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Phase {
    /// New pods come before old ones go.
    #[default]
    RollingOut,
    /// All pods are new, and the SLO is watched.
    Verifying,
    /// The decision before is rolled out again.
    RollingBack,
}

/// Why a workload is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ChangeReason {
    /// Its spec asks for something else.
    #[default]
    Spec,
    /// Its GPU is in the cluster no more.
    GpuGone,
    /// An audit says that it holds too much.
    TooLarge,
    /// An audit says that it holds too little.
    TooSmall,
    /// Its SLO was missed.
    SloMissed,
    /// The change before was not rolled out in time.
    NotReady,
}

impl ChangeReason {
    /// Whether it goes back to what was before.
    pub const fn is_back(self) -> bool {
        matches!(self, Self::SloMissed | Self::NotReady)
    }
}

/// A GPU that is not taken for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Avoided {
    /// By its name in the catalogue.
    pub gpu: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// Until when (RFC 3339).
    pub until: String,
    pub why: String,
}

impl Avoided {
    /// Whether it is still not taken; what is no time is none.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.parse().is_ok_and(|until: Timestamp| until > now)
    }

    /// Whether a decision is what is avoided.
    pub fn names(&self, decided: &Decided) -> bool {
        self.gpu == decided.gpu && self.slice == decided.slice
    }
}

/// What a change was to save an hour, and what its pods hold less by the same prices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Saved {
    pub plan: String,
    /// The cost of what its pods held before.
    pub before_per_hour: Option<String>,
    pub predicted_per_hour: Option<String>,
    /// Of what its pods hold on their nodes now; not set: not yet told.
    pub measured_per_hour: Option<String>,
    /// Whether the SLO was kept while it was watched; not set: not yet told.
    pub kept: Option<bool>,
    /// Whether at least 85 % of what was predicted came, and the SLO was kept meanwhile; not set: not yet told.
    pub proven: Option<bool>,
}
