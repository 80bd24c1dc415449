//! `GpuWorkload`: a model, the promise to its users and their traffic; the GPUs follow from it.

use super::{
    Avoided, Change, Column, Condition, Resource, Rule, Saved, WarmStatus, WorkloadScaling,
    WorkloadTiering,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to be served, to whom, how fast.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuWorkloadSpec {
    /// The model: a name of the catalogue, or a hub id.
    #[schema(min_length = 1, max_length = 253)]
    pub model: String,
    /// GPUs that may serve it, by names of the catalogue; not set: those that the cluster has.
    #[serde(default)]
    #[schema(max_items = 16)]
    pub gpus: Vec<String>,
    /// The engine, such as `vllm` or `sglang`; not set: the one that suits best.
    #[serde(default)]
    #[schema(max_length = 63)]
    pub engine: Option<String>,
    pub traffic: WorkloadTraffic,
    #[serde(default)]
    pub slo: WorkloadSlo,
    /// Replicas, where that is not to follow from the traffic; `kubectl scale` sets it.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 10000)]
    pub replicas: Option<i32>,
    /// How its replicas follow what comes; not set: there are as many as were decided.
    #[serde(default)]
    pub scaling: Option<WorkloadScaling>,
    /// Whether what is measured gives it another GPU, slice or number of replicas; not set: it is proposed.
    #[serde(default)]
    pub tiering: Option<WorkloadTiering>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTraffic {
    /// How many requests come, such as `8/s` or `90/min`.
    #[schema(pattern = "^[0-9]+(\\.[0-9]+)?(/(s|min|h))?$")]
    pub rate: String,
    /// Tokens of a prompt, on average; not set: as `gpuwise plan` takes them.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100000000)]
    pub input_tokens: Option<i64>,
    /// Tokens of an answer, on average; not set: as `gpuwise plan` takes them.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100000000)]
    pub output_tokens: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSlo {
    /// Time to the first token, such as `p95:1s`.
    #[schema(max_length = 63)]
    pub ttft: Option<String>,
    /// Time per output token, such as `p95:50ms`.
    #[schema(max_length = 63)]
    pub tpot: Option<String>,
}

/// What was decided for a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Decided {
    /// The GPU, by its name in the catalogue.
    pub gpu: String,
    /// The same as nodes are labelled with it; several with commas.
    pub product: String,
    /// The MIG profile of it; not set: whole GPUs.
    pub slice: Option<String>,
    pub gpus_per_replica: i64,
    pub replicas: i32,
    pub engine: String,
    /// How each number came about, in one line.
    pub why: String,
    /// What it costs an hour by the price book, else by the lowest offer that is known; not set: none is known.
    pub cost_per_hour: Option<String>,
    /// Whether the SLO is expected to be kept, in words.
    pub slo: String,
    /// The traffic that it was decided for.
    pub traffic: WorkloadTraffic,
    /// Requests a second that a replica serves within the SLO.
    pub rate_per_replica: Option<String>,
    /// Seconds from nothing until a replica serves: nine of ten starts take no longer.
    pub start_seconds: Option<i64>,
    /// The plan that decided it.
    pub plan: String,
}

impl Decided {
    /// Whether pods would be others: another GPU, slice, number of GPUs of each, or another engine.
    pub fn differs(&self, other: &Self) -> bool {
        let pod = |one: &Self| {
            (
                one.gpu.clone(),
                one.slice.clone(),
                one.gpus_per_replica,
                one.engine.clone(),
            )
        };
        pod(self) != pod(other)
    }

    /// Whether they are one and the same, whatever it costs.
    pub fn same_but_cost(&self, other: &Self) -> bool {
        let priced = Self {
            cost_per_hour: other.cost_per_hour.clone(),
            ..self.clone()
        };
        priced == *other
    }

    /// `2 × 1 × L4`, as people read it.
    pub fn words(&self) -> String {
        let slice = self
            .slice
            .as_ref()
            .map_or(String::new(), |slice| format!(" {slice}"));
        format!(
            "{} × {} × {}{slice}",
            self.replicas, self.gpus_per_replica, self.gpu
        )
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuWorkloadStatus {
    pub observed_generation: i64,
    pub decision: Option<Decided>,
    /// The decision before that, to which it goes back where its SLO is missed.
    pub previous: Option<Decided>,
    /// The change that is on its way.
    pub change: Option<Change>,
    /// GPUs on which it missed its SLO: not taken again for a while.
    #[schema(max_items = 64)]
    pub avoided: Vec<Avoided>,
    /// What the last change was to save, and saved.
    pub saved: Option<Saved>,
    /// Looks in a row in which its SLO was missed.
    pub missed: i32,
    /// Replicas that the decision has.
    pub replicas: i32,
    /// Pods that are kept warm beside them; not set: none are.
    pub warm: Option<WarmStatus>,
    /// For how many replicas more nodes are kept, where the forecast says it.
    pub spare_nodes: Option<i32>,
    /// Pods of it, for `kubectl scale` and autoscalers.
    pub selector: String,
    /// `Sized`: there are GPUs for it. `Applied`: its objects are there. `Tiered`: whether it is where what is
    /// measured puts it. `SloKept`: what Prometheus says of its SLO. `Warm`: as many pods are warm as are wanted.
    pub conditions: Vec<Condition>,
}

impl Resource for GpuWorkloadSpec {
    type Status = GpuWorkloadStatus;
    const KIND: &'static str = "GpuWorkload";
    const PLURAL: &'static str = "gpuworkloads";
    const SINGULAR: &'static str = "gpuworkload";
    const SHORT: &'static str = "gw";
    const NAMESPACED: bool = true;
    const ABOUT: &'static str = "A model, the promise to its users and their traffic; its GPUs, Deployment and Service follow from it.";
    const RULES: &'static [Rule] = &[
        Rule {
            at: "spec",
            rule: "self.model == oldSelf.model",
            message: "another model is another workload: make a new one, and delete this one when it serves",
        },
        Rule {
            at: "spec",
            rule: "!has(self.replicas) || !has(self.scaling)",
            message: "replicas that follow what comes have no fixed number: leave `replicas` out, or `scaling`",
        },
        Rule {
            at: "spec/scaling",
            rule: "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            message: "`minReplicas` is more than `maxReplicas`",
        },
        Rule {
            at: "spec/scaling",
            rule: "!has(self.warm) || (type(self.warm) == int ? self.warm >= 0 && self.warm <= self.maxReplicas : self.warm == 'auto')",
            message: "`warm` is `auto`, or a number up to `maxReplicas`: more are never needed warm",
        },
        Rule {
            at: "spec/scaling",
            rule: "!(has(self.minWarm) || has(self.maxWarm)) || (has(self.warm) && type(self.warm) == string)",
            message: "`minWarm` and `maxWarm` bound what the forecast wants: set `warm` to `auto`",
        },
        Rule {
            at: "spec/scaling",
            rule: "!has(self.minWarm) || self.minWarm <= (has(self.maxWarm) ? self.maxWarm : self.maxReplicas)",
            message: "`minWarm` is more than `maxWarm`, or than `maxReplicas`",
        },
        Rule {
            at: "spec/scaling",
            rule: "!has(self.sleep) || !self.sleep || has(self.warm)",
            message: "only warm pods sleep: set `warm`",
        },
        Rule {
            at: "spec/scaling",
            rule: "!has(self.spareNodes) || (type(self.spareNodes) == int ? self.spareNodes >= 0 && self.spareNodes <= self.maxReplicas : self.spareNodes == 'auto')",
            message: "`spareNodes` is `auto`, or a number up to `maxReplicas`",
        },
    ];
    const COLUMNS: &'static [Column] = &[
        Column {
            name: "Model",
            kind: "string",
            path: ".spec.model",
        },
        Column {
            name: "GPU",
            kind: "string",
            path: ".status.decision.gpu",
        },
        Column {
            name: "Replicas",
            kind: "integer",
            path: ".status.replicas",
        },
        Column {
            name: "Warm",
            kind: "integer",
            path: ".status.warm.ready",
        },
        Column {
            name: "Cost/h",
            kind: "string",
            path: ".status.decision.costPerHour",
        },
        Column {
            name: "Sized",
            kind: "string",
            path: ".status.conditions[?(@.type==\"Sized\")].status",
        },
        Column {
            name: "SLO",
            kind: "string",
            path: ".status.conditions[?(@.type==\"SloKept\")].status",
        },
        Column {
            name: "Tier",
            kind: "string",
            path: ".status.conditions[?(@.type==\"Tiered\")].reason",
        },
        Column {
            name: "Age",
            kind: "date",
            path: ".metadata.creationTimestamp",
        },
    ];
    const SCALE: Option<[&'static str; 3]> =
        Some([".spec.replicas", ".status.replicas", ".status.selector"]);
}
