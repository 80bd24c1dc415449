//! What the broker answers.

use super::{LeaseAsk, LeaseSize, QuotaAsk, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why something was not done (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemAnswer {
    /// Which kind of problem, such as `https://gpuwise.dev/problems/budget`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong and what to do.
    pub detail: String,
    /// The field that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseAnswer {
    /// `L-42`.
    pub id: String,
    pub tenant: String,
    pub name: String,
    /// `requested`, `reserved`, `starting`, `active`, `suspended`, `draining`, `ended` or `failed`.
    pub state: String,
    /// Since when (RFC 3339).
    pub since: String,
    /// Why it is in that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub requested_at: String,
    /// When it was first active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// What it has; its last place once it is over.
    pub gpus: Vec<HeldGpu>,
    /// What was asked for.
    pub ask: LeaseAsk,
    /// How a model was sized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<LeaseSize>,
    /// How often its GPUs were lent while it was idle, and what that took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<SuspensionAnswer>,
    /// How its service follows demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<super::ScalingAnswer>,
    /// What the system that runs its jobs says of them while they wait there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<QueuedAnswer>,
    /// Whether the workers of a service, once they were ready, are well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthAnswer>,
    /// What its GPUs wait for: processes of a lease that is to end, or whose command has ended, and that still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What it has cost, such as `12.5 USD`; left out where nothing has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What the workers of a service say of themselves once they were ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthAnswer {
    /// Workers that are well: they get requests.
    pub well: u64,
    /// Workers that are not: they get none until they are.
    pub unwell: u64,
    /// Since when the first of them is not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Requests that were given up as their engine was silent for too long, since the broker started.
    pub silent_requests: u64,
}

impl HealthAnswer {
    /// In words: `2 well`, or `1 well, 1 unwell since …: GET /health was not answered within 5 s`.
    pub fn words(&self) -> String {
        let unwell = (self.unwell > 0).then(|| format!(", {} unwell", self.unwell));
        let since = self.since.as_ref().map(|since| format!(" since {since}"));
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        let silent = (self.silent_requests > 0)
            .then(|| format!("; {} requests given up", self.silent_requests));
        let parts = [
            Some(format!("{} well", self.well)),
            unwell,
            since,
            reason,
            silent,
        ];
        parts.into_iter().flatten().collect()
    }
}

/// A job or pod that waits at the system that runs it, such as Slurm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedAnswer {
    /// `Slurm` or `Kubernetes`.
    pub system: String,
    /// The number of its job there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// The name of its pod there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its priority there; left out: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u64>,
    /// Why it waits, in that system's word.
    pub reason: String,
    /// The account that it is charged to there; left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// That account's fair-share factor, from 0 to 1; left out: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<f64>,
}

impl QueuedAnswer {
    /// In words: `Slurm: job 12 waits: priority 4294901751, reason Resources; fair-share of account x 0.42`, or
    /// `Kubernetes: pod gpuwise-l7-w0-o12-1 waits: ImagePullBackOff: …`.
    pub fn words(&self) -> String {
        let known = |said: Option<String>| said.unwrap_or_else(|| "not known".into());
        if let Some(pod) = &self.pod {
            return format!("{}: pod {pod} waits: {}", self.system, self.reason);
        }
        let account = self.account.as_ref().map_or_else(String::new, |account| {
            let factor = known(self.fair_share.map(|factor| format!("{factor:.2}")));
            format!("; fair-share of account {account} {factor}")
        });
        format!(
            "{}: job {} waits: priority {}, reason {}{account}",
            self.system,
            known(self.job.map(|number| number.to_string())),
            known(self.priority.map(|number| number.to_string())),
            self.reason
        )
    }
}

/// How GPUs of an idle lease are lent and given back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SuspensionAnswer {
    /// `sleep`, `checkpoint:…`, `cuda-checkpoint` or `requeue`.
    pub how: String,
    /// How often it has come back.
    pub returns: u64,
    /// Seconds until its GPUs were free: the 99th percentile of the last hundred; the longest of fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_p99: Option<f64>,
    /// Seconds from when it was wanted until it was active again, of which the same is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub return_p99: Option<f64>,
}

/// A GPU, or a part of one, that a lease has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldGpu {
    pub node: String,
    /// Its number in its node.
    pub index: u32,
    /// Its lasting id.
    pub uid: String,
    /// Its kind.
    pub gpu: String,
    /// `whole`, a share such as `0.25`, or a MIG profile.
    pub part: String,
}

/// Leases, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeaseList {
    pub items: Vec<LeaseAnswer>,
    /// The cursor of the next page; left out on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Why a lease is where it is, or waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplanationAnswer {
    pub id: String,
    pub state: String,
    pub since: String,
    /// In words.
    pub reason: String,
    /// When it is expected to start, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    /// What would help, cheapest first.
    pub fixes: Vec<String>,
    /// How its service follows demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<super::ScalingAnswer>,
    /// What the system that runs its jobs says of them while they wait there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<QueuedAnswer>,
    /// Nodes that had room when it was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u32>,
    /// What was weighed for the choice.
    pub weighed: Vec<WeighedAnswer>,
}

/// Something that was weighed when a place was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WeighedAnswer {
    pub name: String,
    pub score: i64,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantAnswer {
    pub name: String,
    pub created_at: String,
    pub quota: Vec<QuotaAsk>,
    pub weight: f64,
    /// Money for a calendar month; left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Spent this month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<String>,
    /// Held back for what its leases may still cost this month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<String>,
    /// GPUs that it holds.
    pub gpus: f64,
    /// Leases that are not over.
    pub leases: u32,
    /// Whether it may ask for nothing new.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspended: bool,
    /// The account that its jobs are charged to at the system that runs them, and what that keeps of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountAnswer>,
}

/// An account at the system that runs a tenant's jobs, as that counts it; what is left out is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountAnswer {
    /// `Slurm`.
    pub system: String,
    pub name: String,
    /// Its shares beside those of its siblings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<f64>,
    /// The part that these are of all shares at its level, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised: Option<f64>,
    /// What it has used: seconds of what is charged, past use counting less and less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<f64>,
    /// The part that this is of all use at its level, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The fair-share factor of the broker's user in it, from 0 to 1, by which its jobs wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<f64>,
    /// Why nothing of it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl AccountAnswer {
    /// In words: `Slurm account vision: 30 shares, 0.750 promised, 0.312 used; fair-share 0.67`.
    pub fn words(&self) -> String {
        let known = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "not known".into(), |value| format!("{value:.digits$}"))
        };
        let (system, name) = (&self.system, &self.name);
        if let Some(problem) = &self.problem {
            return format!("{system} account {name}: {problem}");
        }
        format!(
            "{system} account {name}: {} shares, {} promised, {} used; fair-share {}",
            known(self.shares, 0),
            known(self.promised, 3),
            known(self.used, 3),
            known(self.fair_share, 2)
        )
    }
}

/// Tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    pub items: Vec<TenantAnswer>,
}

/// A token; what it is, is said once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenAnswer {
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The token itself: only where it was just made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub items: Vec<TokenAnswer>,
}

/// The fleet and who holds what of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetAnswer {
    pub name: String,
    /// The broker's time.
    pub now: String,
    pub nodes: Vec<NodeAnswer>,
    /// Pools whose GPUs are attached to nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolAnswer>,
}

/// A pool of GPUs that are attached to nodes over a fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolAnswer {
    pub name: String,
    /// Its GPUs, wherever they are.
    pub size: u32,
    /// Those that are in it; the others are at nodes.
    pub gpus: Vec<GpuAnswer>,
    /// From asking for a GPU until its node can use it: as was seen of late, else as the fleet file says.
    pub attach_seconds: f64,
    /// From giving one back until another node can ask for it.
    pub detach_seconds: f64,
    /// Whether GPUs come and go while jobs run on the node.
    pub hot_plug: bool,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeAnswer {
    pub name: String,
    pub uid: String,
    /// `up`, `draining`, `maintenance`, `lost`, `suspected` (silent), `fenced` (what it ran counts as ended).
    pub health: String,
    pub gpus: Vec<GpuAnswer>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuAnswer {
    pub index: u32,
    pub uid: String,
    pub gpu: String,
    pub health: String,
    pub holders: Vec<HolderAnswer>,
}

/// Who holds a GPU or a part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HolderAnswer {
    pub lease: String,
    pub tenant: String,
    pub part: String,
}

/// What a tenant is charged for a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatementAnswer {
    pub tenant: String,
    /// Such as `2026-11`.
    pub month: String,
    /// Up to when it counts: the broker's time, or the month's end.
    pub until: String,
    pub lines: Vec<StatementLine>,
    pub totals: Vec<StatementTotal>,
}

/// One charge: its amount is rounded once, here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatementLine {
    /// `usage`, `lent`, `reversal`, `restated` or `shared`.
    pub cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Kind of GPU, or the model where tokens are charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// `whole`, a share such as `0.25`, or a MIG profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// `exclusive`, `mig`, `vgpu`, `mps` or `time-slice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// `on demand`, `spot` or `reserved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    pub from: String,
    pub to: String,
    /// Hours of parts of GPUs that were granted, as a decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_hours: Option<String>,
    /// Hours of the granted ones in which what was to run was still starting: of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_hours: Option<String>,
    /// Hours for which others had GPUs that were kept for the lease: the line is what that earned, below 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_hours: Option<String>,
    /// The share of what they pay for them that is earned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent_share: Option<String>,
    /// GPU-hours in which the multiprocessors worked, where somebody measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_hours: Option<String>,
    /// Hours of the granted ones for which somebody measured what was used; the others are charged by what
    /// was granted alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_hours: Option<String>,
    /// What is charged, as a decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<String>,
    /// `GPU-hour`, `1M tokens` or `kWh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// For a unit, with its currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_price: Option<String>,
    /// What is charged, with its currency; left out where there is no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<String>,
    /// Why nothing is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<String>,
}

/// What the lines of one currency come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatementTotal {
    pub currency: String,
    /// The sum of the lines.
    pub charge: String,
    /// Of it, and below 0: what lent capacity earned; left out: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earned: Option<String>,
    /// To the currency's smallest unit.
    pub payable: String,
}

/// Who holds, who waits, what it costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopAnswer {
    /// The fleet's name.
    pub fleet: String,
    /// The broker's time.
    pub now: String,
    /// GPUs of the fleet.
    pub gpus: u32,
    /// Of them: those that somebody holds, or a part of them.
    pub held: u32,
    pub tenants: Vec<TenantAnswer>,
    /// Leases that are not over.
    pub leases: Vec<LeaseAnswer>,
}

/// Whether the log of a broker is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreCheckAnswer {
    /// Which database, without its password.
    pub store: String,
    pub events: u64,
    /// When the first and the last happened; missing: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    /// Events before those, which were moved into files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub archived: u64,
    /// Events that were applied; all of them, where the log is whole.
    pub applied: u64,
    /// The last event of the snapshot that was begun with, where the first events were not given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u64,
    /// The last event of the snapshot that the next start begins with; missing: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Whether that snapshot is what the log comes to; missing: it was not held to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_holds: Option<bool>,
    pub tenants: u64,
    pub leases: u64,
    pub money: Vec<StoreMoney>,
    /// Decisions of services that follow demand, which were taken once more, and how many this release takes
    /// otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decisions: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decisions_otherwise: u64,
    /// The last event and its chain, which proves all before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// What is wrong, each with its event.
    pub problems: Vec<String>,
}

/// Money of one currency, counted twice: what is charged and what rounding kept back are what was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreMoney {
    pub currency: String,
    /// The statements of all tenants and months.
    pub charged: String,
    /// What was granted, by its length, share and price, less what lenders earn of it.
    pub granted: String,
    /// Of the charges, and below 0: what lent capacity earned; left out: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earned: Option<String>,
    /// Lines of statements, each of which was rounded once.
    pub lines: u64,
    /// What rounding kept back of all lines together; left out: it cannot be computed exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding: Option<String>,
    pub conserved: bool,
}

/// A backup of a log that was written, or put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreBackupAnswer {
    /// Which database, without its password.
    pub store: String,
    pub file: String,
    /// The event after which it begins; left out: it begins with the first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
    pub events: u64,
    /// When the first and the last happened.
    pub first_at: String,
    pub last_at: String,
}

/// A snapshot of the state that was made of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreSnapshotAnswer {
    /// Which database, without its password.
    pub store: String,
    /// The last event that is in it.
    pub seq: u64,
    pub bytes: u64,
    /// Events that were read one by one for it; the others were in the snapshot before it.
    pub read: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(said: &bool) -> bool {
    !*said
}
