//! What is asked of the broker.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A lease that is asked for: GPUs by name, or a model and an SLO that are sized.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseAsk {
    /// Who asks: the tenant that pays.
    pub tenant: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for, within the tenant: reports sum by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// GPUs of each worker: `H100`, `4xH100`, `0.25xL40S` for a share of one by time, or a MIG profile
    /// such as `1g.10gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// How many workers, all at once; 1 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// It may have up to so many workers where GPUs are left over, and gives those beyond `workers` back to who
    /// waits, as the policy says (`upkeep.grow`, `disruption.elastic`). A service's workers that stay run on; another
    /// command is started anew each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_workers: Option<u32>,
    /// All workers within one `nvlink`, `node`, `rack`, `block` or `zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Only on nodes that have all of these features, as the fleet file says them (Slurm: node features).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// The container image that it runs in, where leases are pods, such as `vllm/vllm-openai:v0.12.0`; left out: the
    /// broker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Processor cores of each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Memory of each worker, such as `64GiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Higher goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether it may be stopped for others and wait again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// How often it saves what it has done, such as `30min`: what may be lost when it is stopped. Left out: at
    /// its end alone, or once a day where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// For how long, such as `12h`; left out: until it is released, or its command ends.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
    /// A model to be sized, as `gpuwise plan` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Arrivals, such as `8` or `600/min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Concurrent requests, in place of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<String>,
    /// Input sequence length in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isl: Option<String>,
    /// Output sequence length in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub osl: Option<String>,
    /// Target of the time to first token, such as `p95:1s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<String>,
    /// Target of the time per output token, such as `p95:40ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<String>,
    /// It is admitted only where the simulator says that its SLO is kept, and it can start now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<bool>,
    /// How what runs gives its GPUs up while it is idle, and gets them back: `sleep` (vLLM's endpoints;
    /// `sleep:2` without a copy of the weights), `checkpoint:SIGNAL:TIME`, `cuda-checkpoint`, or `requeue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<String>,
    /// Where the service that runs on it tells its metrics, on a Prometheus page of vLLM, SGLang or another engine: a
    /// path such as `/metrics`, at the port that it is given (the variable `PORT`), or an address of a node that it
    /// runs on, such as `http://NODE:8000/metrics`. The broker asks nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// A command that runs on what is leased; the lease ends when it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What becomes of it when its command fails: `never` (usual) ends the lease; `on-failure` starts it again
    /// on the same GPUs up to five times, `on-failure:N` up to N times, each time after a longer wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Environment of the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Secrets of the tenant, by the variables in which its command gets them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// The command is an inference engine: the gateway sends it requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceAsk>,
}

/// An inference engine behind the gateway. Its command runs once for each worker; where `{port}` stands in
/// it, and in the variable `PORT`, is the port that it is to listen on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceAsk {
    /// The model that requests name.
    pub model: String,
    /// The path that answers 200 when it is ready; left out: `/health`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// How long it may take to get ready, such as `10m`; left out: 10 minutes. Later it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_within: Option<String>,
    /// Without a request for so long, such as `15m`, it gives its GPUs back, and gets them again with the
    /// next one; left out: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Requests at once for each worker; more are answered 429. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Where its weights lie on a node: a file, or a folder. What is popular is read into the node's memory before it
    /// is started, where the broker has memory for that (`serve --warm-memory`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// Bytes of its weights; left out: they are never put into a node's memory ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_bytes: Option<u64>,
    /// A command line (`sh -c`) that puts them there, in place of reading `weights`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<String>,
    /// It follows demand by this policy: more leases like this one, fewer, none and back. Left out: it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<super::ScalePolicy>,
}

/// A tenant that is to be created or changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantAsk {
    pub name: String,
    /// Money for a calendar month (UTC), such as `20000 USD`; left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// GPUs of its own; left out: no limit of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quota: Vec<QuotaAsk>,
    /// Its weight when what is left over is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// A quota of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaAsk {
    /// Nominal quota: `16xH100`, or `16` of any kind.
    pub gpus: String,
    /// Borrowing limit in GPUs; left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<f64>,
    /// Lending limit in GPUs; left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lend: Option<f64>,
}

/// A token that is to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenAsk {
    /// A name for people.
    pub name: String,
    pub role: super::Role,
    /// The tenant that it is for; left out for administrators, operators and auditors of the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// For how long it is valid, such as `30d`; left out: until it is revoked.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
}
