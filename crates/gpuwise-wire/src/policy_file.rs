//! The form of policy files: by what the scheduler goes, as people write it.

use crate::live::{BackfillWord, OrderWord, PreferenceWord, WeighWord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The schema of policy files.
pub const POLICY_SCHEMA: &str = "gpuwise.policy/v1";

/// By what the scheduler goes. What is left out is as the fleet file says, else as is usual.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// `gpuwise.policy/v1`, where it says what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How nodes are chosen: a name of `gpuwise place --policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Which kind of GPU is taken first, where a job may have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefer: Option<PreferenceWord>,
    /// Who goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderWord>,
    /// Who may go ahead of one who finds no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backfill: Option<BackfillWord>,
    /// How many starts are reserved at most, where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations: Option<u32>,
    /// By how many standard deviations of its logarithm a duration is taken to be longer than expected; 1 if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding_sigmas: Option<f64>,
    /// Who has waited so long goes before all others, and its start is reserved: `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starvation: Option<String>,
    /// What counts of shares and of the past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<FairSharePart>,
    /// What queues have and may borrow, over what the fleet file says of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<QueuePart>,
    /// Who may be disrupted for whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<DisruptionPart>,
    /// Jobs that may be stopped take turns, so that each gets its fair part of the kinds of GPU on which it is
    /// fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<RoundsPart>,
    /// What is tidied up beside the placing of jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<UpkeepPart>,
}

/// What counts of shares and of the past.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FairSharePart {
    /// What a GPU of one kind counts beside one of another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weigh: Option<WeighWord>,
    /// After which time past use counts half: `7d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_life: Option<String>,
    /// How much past use moves a weight; 1 where there is a half-life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past: Option<f64>,
    /// How long a period of the budgets is: `30d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_period: Option<String>,
}

/// A queue of the fleet file, and what is otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuePart {
    /// Its name.
    pub name: String,
    /// Its weight when what is left over is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Higher goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Whether it takes back what it lent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaims: Option<bool>,
    /// GPUs that it may take beyond its own, of each of its quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub borrow: Option<f64>,
    /// GPUs that others may take of what it does not use, of each of its quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lend: Option<f64>,
    /// GPUs that it may hold at most, of each of its quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
}

/// Who may be disrupted for whom.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DisruptionPart {
    /// Whether jobs that allow it are stopped for those of higher priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<bool>,
    /// Whether jobs that allow it are moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrate: Option<bool>,
    /// Whether elastic jobs are shrunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<bool>,
    /// Whether pooled GPUs are attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach: Option<bool>,
    /// Whether idle instances are destroyed and MIG is switched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repartition: Option<bool>,
    /// Whether GPUs that are reserved for a queue are lent to those who may be stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lend: Option<bool>,
    /// Jobs that are disrupted for one at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// By which share each step of priority makes disrupting a job dearer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Which share of what a job will use moving others for it may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<f64>,
    /// From whom GPUs are taken while they are idle, until they want them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdlePart>,
}

/// How jobs take turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RoundsPart {
    /// How long a round is: `6min`. Who is stopped goes on from its last checkpoint.
    pub length: String,
    /// Which jobs may share a GPU in a round, by what was measured; others do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pair: Vec<PairPart>,
}

/// What two jobs were measured to do beside each other on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PairPart {
    /// Names of jobs; `*` stands for any letters.
    pub jobs: [String; 2],
    /// On which kind of GPU, by the name that the fleet has for it.
    pub gpu: String,
    /// Speed of each beside the other, as a share of what it does there alone. Together above 1, or they take
    /// turns.
    pub speeds: [f64; 2],
}

/// From whom GPUs are taken while they are idle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IdlePart {
    /// Busy for at most this share of the time; 0.05 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// For so long: `30min`.
    pub after: String,
    /// What coming back takes: `30s`.
    pub reload: String,
}

/// What is tidied up beside the placing of jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepPart {
    /// Whether jobs that may be stopped leave nodes that are drained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
    /// Whether elastic jobs grow while nobody waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grow: Option<bool>,
    /// Pooled GPUs go back that have been idle for so long: `10min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach_after: Option<String>,
    /// How much may be moved to have fewer pieces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<ConsolidationPart>,
}

/// How much may be moved to have fewer pieces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsolidationPart {
    /// Jobs that are moved at most,
    pub moves: u32,
    /// and GPU time that they lose at most: `2h`,
    pub lost: String,
    /// in so long: `1d`.
    pub per: String,
    /// For how long what a move frees is counted: `7d`.
    pub horizon: String,
}
