//! What can be had, at which price, who may have how much, and what was decided and done.

use super::{HeldGpu, LeaseSize, PolicyDocument, ProblemAnswer, QuotaAsk, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What of a tenant is to be changed; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantChange {
    /// Money for a calendar month (UTC), such as `20000 USD`; `none`: no limit any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// GPUs of its own, in place of those before; an empty list: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Vec<QuotaAsk>>,
    /// Its weight when what is left over is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Whether new leases are refused; those that run go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// A price from a moment on, in place of the one that was for the same until then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceAsk {
    /// A GPU of the fleet.
    pub gpu: String,
    /// For a GPU-hour, with its currency, such as `2.50 USD`.
    pub price: String,
    /// From when on: a day or moment in UTC such as `2026-12-01`; left out: now. Closed months are corrected
    /// where it is in the past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// For one tenant alone; left out: for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// `on-demand` or `spot`; left out: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// A MIG profile, or `whole`; left out: any part, by its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The share of what is charged by it that whoever lent the capacity earns, such as `0.3` or `30%`; left out:
    /// `0.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_share: Option<String>,
}

/// A price of the book.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceAnswer {
    /// Its name, which lines of statements refer to.
    pub id: String,
    /// The GPU that it is for; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// For a GPU-hour, with its currency.
    pub price: String,
    /// From when on; left out: from the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Until when; left out: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The share of what is charged by it that whoever lent the capacity earns.
    pub lent_share: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceList {
    /// What says more closely what it is for goes first.
    pub items: Vec<PriceAnswer>,
}

/// What could be had of a kind of GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferAnswer {
    pub gpu: String,
    /// Features of the nodes that it is in, such as Slurm's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// GPUs of this kind that can be used.
    pub gpus: u32,
    /// Of them: those that nobody holds any part of.
    pub free: u32,
    /// Of these: the most on one node.
    pub together: u32,
    /// When so many as are asked for could be had; left out: that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Whether that is now.
    pub now: bool,
    /// For a GPU-hour now, with its currency; left out: it has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The same where it may be stopped for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_price: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OfferList {
    /// The broker's time.
    pub now: String,
    /// GPUs on one node that were asked for.
    pub count: u32,
    pub items: Vec<OfferAnswer>,
    /// Services that one sees, and what they take to answer from nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ColdStart>,
}

/// What a service took from when it was wanted, and had nothing, until it answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ColdStart {
    pub tenant: String,
    /// The name by which it is asked for.
    pub service: String,
    /// How often that was seen.
    pub starts: u64,
    /// Seconds: in the median, and at the 99th percentile (the longest of fewer than a hundred).
    pub p50: f64,
    pub p99: f64,
}

/// What would become of a lease if it were asked for now. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DryRunAnswer {
    /// Whether it would be admitted.
    pub admitted: bool,
    /// Why it would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemAnswer>,
    /// The state that it would be in at once; left out: it would be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Where it would be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<HeldGpu>,
    /// How its model would be sized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<LeaseSize>,
    /// Why it would wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it is expected to start, where it waits and that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    /// What would help, cheapest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<String>,
    /// Leases that would be stopped or moved for it; of others' only that there are some (`-`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbs: Vec<String>,
    /// What it costs at most: over its time, or until the month ends where it has none. Left out: a GPU
    /// that it may get has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs_at_most: Option<String>,
    /// What the service took to answer from nothing; left out: it is none, or was never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdStart>,
}

/// What a tenant may have, and has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaAnswer {
    pub tenant: String,
    #[serde(flatten)]
    pub quota: QuotaAsk,
    /// GPUs that it has of these kinds.
    pub held: f64,
    /// Of these: more than its own.
    pub borrowed: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuotaList {
    pub items: Vec<QuotaAnswer>,
}

/// A budget as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetAnswer {
    pub tenant: String,
    /// The month (UTC) that it is for.
    pub month: String,
    pub budget: String,
    pub spent: String,
    /// Held back for what leases may still cost.
    pub reserved: String,
    /// Neither spent nor held back; below 0 where more was spent than there was.
    pub left: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetList {
    pub items: Vec<BudgetAnswer>,
}

/// What a tenant's leases of one project have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectAnswer {
    pub tenant: String,
    pub project: String,
    /// Leases that are not over, and that ever were.
    pub open: u32,
    pub leases: u32,
    /// GPUs that they have.
    pub gpus: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    pub items: Vec<ProjectAnswer>,
}

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserAnswer {
    /// The name of the token.
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Leases that it asked for and that are not over.
    pub leases: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserList {
    pub items: Vec<UserAnswer>,
}

/// What runs, or is to run, on a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobAnswer {
    pub lease: String,
    pub tenant: String,
    pub command: Vec<String>,
    pub state: String,
    /// Nodes that it is on.
    pub nodes: Vec<String>,
    /// Starts that failed one after the other.
    pub failed_starts: u32,
    /// How often it was stopped for others.
    pub stops: u32,
    /// How often it has failed and was started again.
    #[serde(default)]
    pub restarts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    pub items: Vec<JobAnswer>,
    /// What goes on after this page; left out: nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// GPUs of a node that are kept for a tenant, from when to when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationAnswer {
    pub name: String,
    pub tenant: String,
    pub node: String,
    /// Whole GPUs of it.
    pub gpus: u32,
    pub from: String,
    /// That moment not included.
    pub until: String,
}

/// GPUs of a node that are to be kept for a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationAsk {
    pub name: String,
    pub tenant: String,
    pub node: String,
    /// Whole GPUs of it.
    pub gpus: u32,
    /// A day or moment (RFC 3339, UTC); left out: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// That moment not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// In place of `until`: for how long, such as `8h`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationList {
    pub items: Vec<ReservationAnswer>,
}

/// What the kernel decided at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanAnswer {
    /// The event of the log that holds it.
    pub seq: u64,
    pub at: String,
    /// What was begun, in words.
    pub actions: Vec<String>,
    /// Why those who were placed are where they are.
    pub placed: Vec<PlacedAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedAnswer {
    pub lease: String,
    /// Nodes that had room.
    pub candidates: u32,
    pub weighed: Vec<super::WeighedAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanList {
    /// The newest first.
    pub items: Vec<PlanAnswer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// By what the scheduler goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyAnswer {
    pub policy: PolicyDocument,
    /// How often it was set, its first one included.
    pub version: u32,
    /// Since when it holds.
    pub since: String,
}

/// What one lease bore for another, whose demand was raised because its SLO was at risk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SloCostAnswer {
    /// Whose SLO was at risk; `-`: another tenant's.
    pub lease: String,
    /// Who bore it; `-`: another tenant's.
    pub bearer: String,
    /// How often that was stopped or moved.
    pub stops: u32,
    /// GPU-hours that it went without.
    pub gpu_hours: f64,
    /// What they are worth at its price now; left out: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worth: Option<String>,
    /// How often the other went ahead of it.
    pub passed: u32,
    /// Seconds that it has waited since it was passed, of which the other caused as many at most.
    pub waited_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SloCostList {
    pub items: Vec<SloCostAnswer>,
}

/// How the fleet is used now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetReport {
    pub at: String,
    /// GPUs that can be used.
    pub gpus: f64,
    pub held: f64,
    pub free: f64,
    /// Of what is free: GPUs that what is typically asked for cannot use, by cause.
    pub stranded: Vec<StrandedAnswer>,
    /// Leases that wait, and how long they have on average and at most, in seconds.
    pub waiting: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_wait_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_wait_s: Option<f64>,
    /// Jain's index of GPUs held by tenants, from 0 to 1; left out: fewer than two hold or ask for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StrandedAnswer {
    pub cause: String,
    pub gpus: f64,
}

/// Something that somebody asked for and that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The event of the log.
    pub seq: u64,
    pub at: String,
    /// The name of the token; left out: the broker itself, or a release that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The kind of event.
    pub what: String,
    /// Whom or what it was about, such as `L-42`.
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What was said with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// The newest first.
    pub items: Vec<AuditEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
