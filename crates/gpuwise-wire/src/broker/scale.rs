//! Services that follow demand: the policy they are scaled by, what was seen, what was decided.

use crate::scale::{RequestTokensPart, TokensSeenPart};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schema of scaling policies.
pub const SCALE_POLICY_SCHEMA: &str = "gpuwise.scale-policy/v1";

/// By what a service is scaled: what one replica serves, what is promised, and between what bounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScalePolicy {
    /// `gpuwise.scale-policy/v1`, where it says what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Replicas that serve at least; 0: none where nothing comes for as long as `idle` says. Left out: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Replicas at most, those that are warm among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Requests a second that a replica serves within the SLO; left out: what the lease was sized for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Tokens of a request of those that `rate` counts: demand is as many such requests as its prompts, or its
    /// answers, are worth, whichever is more. Left out: those of the traffic that the lease was sized for, where the
    /// rate is its size's too; else requests are counted, whatever their length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<RequestTokensPart>,
    /// Share of requests that are to be in time, such as 0.99 (usual).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// How long a request may wait before it is late; left out: `2s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// A request is late, too, whose first token comes later than this after it came, or whose further tokens take
    /// longer than this in the mean, such as `1s` and `50ms`. Of streams alone: an answer that comes whole says neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot: Option<String>,
    /// From nothing until a replica serves, nine times of ten; left out: `180s`. It is learned from starts that are seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// From warm until it serves; left out: `5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<String>,
    /// What a warm replica costs beside one that serves, what it earns while it is lent taken off, such as 0.1. Left
    /// out: none are kept warm. Only what sleeps can be (`suspend`: `sleep` or `cuda-checkpoint`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_cost: Option<f64>,
    /// Without requests for so long it has no replica, where `min` is 0; left out: `10min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Between two decisions; left out: `15s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
}

/// What was seen of a service when it was looked at.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SeenDocument {
    /// Requests that came since it was looked at last; left out: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<f64>,
    /// Requests that wait, and that run.
    pub queued: f64,
    /// Of those that wait: those in the engines' own queues; left out: no engine said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_queued: Option<f64>,
    pub running: f64,
    /// Tokens of the requests that came, as many each as those had that ended lately; left out: nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensSeenPart>,
    /// The share of the key-value cache that is used, in the mean of the engines that say it; left out: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<f64>,
    /// Replicas that serve, that start or wake, that are warm, and that are on the way to be.
    pub ready: u32,
    pub starting: u32,
    pub warm: u32,
    pub warming: u32,
    /// Requests since the broker began to count, and those of them that were late.
    pub requests: f64,
    pub late: f64,
    /// What the last start took, in nanoseconds, where one became ready since; what is known of starts is learned by
    /// model, class of nodes and state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<u64>,
}

/// How many replicas a service is to have, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaledDocument {
    /// The first lease of the service.
    pub service: u32,
    pub seen: SeenDocument,
    /// Looks before this one at which nothing came and nothing changed: they are not kept one by one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub quiet: u32,
    /// Replicas that are to serve, and to be warm beside them.
    pub replicas: u32,
    pub warm: u32,
    /// The rule that they come from: `demand`, `queue`, `band`, `hold`, `no_metrics`, `implausible`, `not_ready`, `min`, `max`, `idle`.
    pub because: String,
    /// Requests a second that come now, and that are covered with what is warm.
    pub demand: f64,
    pub covered: f64,
    /// What is done about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ScaleStep>,
    /// Why no more replicas could be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What it was given of GPUs of which services want more than there are; left out: they have what they want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantDocument>,
}

/// What a service was given of GPUs of which more are wanted than there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantDocument {
    /// Kinds of GPU that are shared out.
    pub pool: Vec<String>,
    /// GPUs of these kinds that services may have.
    pub gpus: u32,
    /// Services that may get some of them, and GPUs that they want together.
    pub services: u32,
    pub asked: u32,
    /// GPUs that are this service's own where it asks for them, that it wants, and that it gets.
    pub guaranteed: u32,
    pub wants: u32,
    pub gets: u32,
    /// The rule by which it got the last of them: `nothing`, `guarantee`, `at_risk`, `need` or `budget`.
    pub by: String,
    /// Replicas that it wanted to serve, and to be warm.
    pub replicas: u32,
    pub warm: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

/// What is done with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleStep {
    pub lease: u32,
    pub what: ScaleVerb,
}

gpuwise_units::named! {
    /// What is done with a replica.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ScaleVerb:
        name
    {
        /// It is asked for, to serve, or to be warm.
        Start = "start",
        StartWarm = "start-warm",
        /// It was warm, or was to go, and serves.
        Serve = "serve",
        /// It gets nothing new, and is warm once it has answered what it has.
        Spare = "spare",
        /// It gives its GPUs up, and wakes when it is needed.
        Park = "park",
        /// It gets nothing new, and ends once it has answered what it has.
        Leave = "leave",
        Release = "release",
    }
}

/// How a service follows demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScalingAnswer {
    /// The first lease of the service.
    pub service: String,
    /// What this lease is for: `serving`, `warm` or `leaving`.
    pub role: String,
    /// Replicas that are to serve and to be warm, as last decided.
    pub replicas: u32,
    pub warm: u32,
    /// The rule that they come from, and in words.
    pub because: String,
    pub reason: String,
    /// What was seen when that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenDocument>,
    /// All its replicas.
    pub members: Vec<ReplicaAnswer>,
    /// Decisions that changed something, the newest first: the last twenty.
    pub decisions: Vec<ScaleDecisionAnswer>,
    /// Seconds from when a warm one was wanted until it served: the 99th percentile of the last hundred of each
    /// replica, the longest of fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_p99: Option<f64>,
    /// Nodes in whose memory its weights lie, or are put.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<ResidentAnswer>,
    /// What starts of its model took, by the class of nodes and what was there already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartAnswer>,
}

/// What starts of a model take on a class of nodes from a state: what was stated, moved by what was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StartAnswer {
    /// The class of nodes: their GPU.
    pub class: String,
    /// What was there: `node up`, `image there`, `weights in host memory` or `asleep`.
    pub from: String,
    /// Starts that were seen.
    pub seen: u64,
    /// Seconds of one in two, of nine in ten, and of 99 in 100.
    pub median: f64,
    pub p90: f64,
    pub p99: f64,
    /// Whether the controller goes by it: the next start is expected to be like this one.
    pub expected: bool,
}

/// A replica of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaAnswer {
    pub lease: String,
    pub role: String,
    /// The state of its lease.
    pub state: String,
}

/// What was decided of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScaleDecisionAnswer {
    pub at: String,
    pub replicas: u32,
    pub warm: u32,
    pub because: String,
    pub reason: String,
    /// Such as `start L-4`.
    pub steps: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What it was given, where not all services could have what they wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantDocument>,
}

/// Weights in the memory of a node: what is decided of them, or that it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PooledDocument {
    /// The node's name.
    pub node: String,
    /// Whose model, and which.
    pub tenant: String,
    pub model: String,
    /// The lease whose weights they are.
    pub lease: u32,
    pub bytes: u64,
    /// Whether they are to lie there.
    pub kept: bool,
    /// Whether that is done; else it is to be done.
    pub done: bool,
    pub reason: String,
}

/// Weights in the memory of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResidentAnswer {
    pub node: String,
    pub tenant: String,
    pub model: String,
    pub bytes: u64,
    /// `there`, or `loading`; and since when.
    pub state: String,
    pub since: String,
    pub reason: String,
}
