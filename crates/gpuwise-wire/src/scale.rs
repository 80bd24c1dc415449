//! The forms of decisions on replicas, a line of JSON each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schema of what was decided for KEDA.
pub const SCALE_DECISION_SCHEMA: &str = "gpuwise.scale-decision/v1";

/// The schema of what was decided on variants.
pub const SCALE_MIX_DECISION_SCHEMA: &str = "gpuwise.scale-mix-decision/v1";

/// What was decided for an object of KEDA, with all that it was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleDecisionFile {
    pub schema: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Namespace and name.
    pub object: String,
    /// Nanoseconds between two decisions.
    pub period_ns: u64,
    pub service: ScaledService,
    /// Whether nothing was known of the object before: it is new, says something else, or the process is new.
    pub fresh: bool,
    /// What was read; null: see `trouble`.
    pub read: Option<ScaleRead>,
    /// Why nothing was read, or what was no number.
    pub trouble: Option<String>,
    pub wanted: ScaleWanted,
}

/// What was read of a service.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRead {
    /// Requests a second.
    pub rate: f64,
    /// Replicas that are ready; null: nothing says how that is known.
    pub ready: Option<f64>,
    /// Requests that wait; null: the same.
    pub queued: Option<f64>,
    /// Tokens of prompts and of answers a second; absent: nothing says how they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode: Option<f64>,
    /// Requests that run, and the share of the key-value cache that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<f64>,
    /// The share of requests that are within the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attained: Option<f64>,
    /// Replicas that are warm; absent: nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<f64>,
    /// Its pods, where they are seen; absent: queries alone tell of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<ScalePods>,
}

/// Pods of a service that are to serve: those that are ready, and those that are not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScalePods {
    pub ready: u32,
    pub starting: u32,
}

/// What the metadata of a trigger say of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaledService {
    /// PromQL that gives requests a second, of all its replicas.
    pub query: String,
    /// Requests a second that a replica serves within its SLO.
    pub rate: f64,
    /// PromQL of its replicas that are ready; null: those that were wanted are taken for ready.
    pub ready: Option<String>,
    /// PromQL of its requests that wait; null: nothing is taken to wait.
    pub queued: Option<String>,
    /// Replicas at most; null: as many as it takes.
    pub most: Option<u32>,
    /// For how long fewer must be enough before there are fewer.
    pub hold_s: f64,
    /// For how long nothing must have come before there are none.
    pub idle_s: f64,
    pub controller: ScaleController,
    /// From nothing until a replica serves.
    pub start_s: f64,
    /// Share of requests that are to be in time.
    pub objective: f64,
    /// How long one may wait.
    pub wait_s: f64,
    /// Its tokens; absent: requests are counted, whatever their length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ScaledTokens>,
    /// PromQL of its requests that run, and of the share of the key-value cache that is used, of all its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// PromQL of the share of its requests that are within the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attained: Option<String>,
    /// What a replica that is kept warm costs beside one that serves; absent: none are kept warm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_cost: Option<f64>,
}

/// Tokens of a service: how they are known, and how many a replica serves within the SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaledTokens {
    /// PromQL of tokens of prompts that come, and of answers that are decoded, a second.
    pub prefill: String,
    pub decode: String,
    /// Tokens a second of a replica.
    pub prefill_rate: f64,
    pub decode_rate: f64,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScaleController {
    Gpuwise,
    Rate,
}

/// How many replicas there are to be, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleWanted {
    /// Null: nothing was ever read of it.
    pub replicas: Option<u32>,
    /// Replicas that are to be warm beside them; absent: none are kept warm, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<u32>,
    pub reason: String,
}

/// What was decided on the variants of a service, with all that it was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleMixDecisionFile {
    pub schema: String,
    pub service: String,
    /// What it goes by, on the first line of a run.
    pub rules: Option<MixRulesPart>,
    pub seen: MixSeenPart,
    /// GPUs of each pool that it may have, in order of the variants' pools.
    pub gpus: Vec<u32>,
    /// What it asked and got of each of its pools; absent: no other service asks.
    #[serde(default)]
    pub shares: Vec<ScaleShare>,
    pub decision: MixDecisionPart,
}

/// What a service asked and got of a pool that others ask as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleShare {
    pub pool: String,
    /// GPUs of the pool; null: as many as are asked for.
    pub gpus: Option<u32>,
    pub guaranteed: u32,
    /// GPUs without which requests are late, all that it asks for, and those of a replica.
    pub needs: u32,
    pub wants: u32,
    pub each: u32,
    /// The share of its error budget that is used: 1, all of it.
    pub at_risk: f64,
    /// Money that is left; null: nobody counts it.
    pub budget: Option<f64>,
    pub holds: u32,
    pub got: u32,
    /// The rule by which it got the last of them.
    pub by: ScaleGrantedBy,
    /// GPUs that it asked for and did not get.
    pub short: u32,
}

/// The rule by which a service got the last of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleGrantedBy {
    Nothing,
    Guarantee,
    AtRisk,
    Need,
    Budget,
}

/// What a mix is decided by. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MixRulesPart {
    pub rules: ScaleRulesPart,
    pub variants: Vec<VariantPart>,
    /// The most that all replicas may cost an hour.
    pub per_hour: Option<f64>,
    /// Within this time a change has to pay.
    pub pays_within: u64,
}

/// What the controller of a service goes by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleRulesPart {
    pub period: u64,
    pub rate: f64,
    pub objective: f64,
    pub wait: u64,
    pub start: u64,
    pub wake: u64,
    pub warm_cost: Option<f64>,
    pub min: u32,
    pub max: u32,
    pub idle: u64,
    /// Tokens of a request of those that `rate` counts; absent: requests are counted, whatever their length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<RequestTokensPart>,
}

/// A kind of replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantPart {
    pub name: String,
    pub pool: String,
    pub gpus: u32,
    pub rate: f64,
    pub service: f64,
    pub prices: Vec<PricePart>,
    pub start: u64,
    pub wake: u64,
    pub warm_cost: Option<f64>,
    pub spot: Option<SpotPart>,
}

/// A price from when on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PricePart {
    pub from: u64,
    pub per_hour: f64,
}

/// How machines of a pool are taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpotPart {
    pub notice: u64,
    pub share: f64,
    pub a_day: f64,
    pub outage: u64,
}

/// What was seen of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MixSeenPart {
    pub now: u64,
    /// Requests since it was last asked; null: metrics say nothing.
    pub arrived: Option<f64>,
    pub queued: f64,
    pub running: f64,
    /// Requests since the beginning, and those of them beyond the SLO.
    pub requests: f64,
    pub late: f64,
    /// Tokens since it was last asked; absent: nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensSeenPart>,
    /// The share of the key-value cache that is used; absent: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<f64>,
    pub variants: Vec<VariantSeenPart>,
}

/// Tokens of prompts that came, and of answers that were decoded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensSeenPart {
    pub prompts: f64,
    pub answers: f64,
}

/// Tokens of a request of those that a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestTokensPart {
    pub prompt: f64,
    pub answer: f64,
}

/// Replicas of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantSeenPart {
    pub ready: u32,
    pub waking: u32,
    pub starting: u32,
    pub warm: u32,
    pub warming: u32,
    pub leaving: u32,
    /// How long until each that serves would have none of its requests left, the shortest first.
    pub frees: Vec<u64>,
    pub started: Option<u64>,
    pub outage: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MixDecisionPart {
    pub need: MixNeedPart,
    pub wanted: Vec<VariantWantedPart>,
    pub limit: Option<MixLimit>,
    pub per_hour: f64,
}

/// What was needed, in replicas that serve `unit` requests a second each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MixNeedPart {
    pub unit: f64,
    pub decision: AmountPart,
}

/// How many, and which rule that came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AmountPart {
    pub wanted: WantedPart,
    pub because: ScaleBecause,
    /// Requests a second that arrive, and that are to be covered.
    pub demand: f64,
    pub covered: f64,
}

/// Replicas that serve, and that are warm beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedPart {
    pub replicas: u32,
    pub warm: u32,
}

/// Replicas of a variant that are wanted, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantWantedPart {
    pub wanted: WantedPart,
    pub by: MixReason,
}

/// The rule that an amount came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleBecause {
    Demand,
    Queue,
    Band,
    Hold,
    NoMetrics,
    Implausible,
    NotReady,
    Min,
    Max,
    Idle,
}

/// Why there are so many of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixReason {
    Kept,
    Amount,
    Woken,
    Cheapest,
    Fewer,
    Replaced,
    NoMetrics,
}

/// What kept a mix from being the cheapest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixLimit {
    UntilReady,
    Loss,
    Inventory,
    Budget,
}
