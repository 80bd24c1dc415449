//! Service level objectives of tenants and leases.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An SLO that is to be set: it replaces the one that its tenant or lease has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SloAsk {
    /// Whose: a lease such as `L-42`, or a tenant, whose leases it is for.
    pub target: String,
    /// Time to first token, such as `p95:1s`: 95 % of requests within 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<String>,
    /// Time per output token after the first, such as `p95:40ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<String>,
    /// Share of requests that meet all latency targets at once, such as `99%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<String>,
    /// From request to active, such as `p95:10min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_lease: Option<String>,
    /// Share of leases that last as long as promised, such as `99%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survival: Option<String>,
    /// Metrics that the tenant reports, such as `accuracy>=0.9:99%`: 99 % of reports are good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quality: Vec<String>,
}

/// An SLO as the log keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SloDocument {
    /// `S-1` is 1.
    pub number: u32,
    pub tenant: String,
    /// A lease of the tenant; left out: all its leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<u32>,
    pub objectives: Vec<ObjectiveDocument>,
}

/// One thing that is promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectiveDocument {
    pub indicator: IndicatorDocument,
    /// Millionths of events that are good at least.
    pub good_ppm: u32,
}

/// What makes an event good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum IndicatorDocument {
    /// A request's first token comes within a time.
    Ttft { within_ns: u64 },
    /// Further tokens come, on average, within a time.
    Tpot { within_ns: u64 },
    /// A request meets all latency targets at once.
    Goodput,
    /// A lease is active within a time of being asked for.
    TimeToLease { within_ns: u64 },
    /// A lease lasts as long as it was promised.
    Survival,
    /// A report of the tenant's is good.
    Quality {
        metric: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_least: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<f64>,
    },
}

impl IndicatorDocument {
    /// Its word: of columns and labels.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ttft { .. } => "ttft",
            Self::Tpot { .. } => "tpot",
            Self::Goodput => "goodput",
            Self::TimeToLease { .. } => "time_to_lease",
            Self::Survival => "survival",
            Self::Quality { .. } => "quality",
        }
    }
}

/// An SLO and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SloAnswer {
    /// `S-1`.
    pub id: String,
    pub tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    pub objectives: Vec<ObjectiveAnswer>,
}

/// How one objective stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObjectiveAnswer {
    /// `ttft`, `tpot`, `goodput`, `time_to_lease`, `survival` or `quality`.
    pub indicator: String,
    /// What makes an event good, such as `≤ 1 s`.
    pub target: String,
    /// The share of events that is to be good.
    pub objective: f64,
    /// Events of the last 30 days.
    pub events: u64,
    pub bad: u64,
    /// The share that was good; left out: there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<f64>,
    /// What is left of the error budget: 1 is all of it, below 0 it is overspent.
    pub budget_left: f64,
    /// How many times faster than allowed errors came, by window.
    pub burn: Vec<BurnAnswer>,
    /// `ok`, `ticket` or `page`.
    pub alert: String,
}

/// How fast an error budget burns: both windows must for an alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BurnAnswer {
    /// The long window: `1h`, `6h`, `1d` or `3d`; the short one is a twelfth of it.
    pub window: String,
    pub long: f64,
    pub short: f64,
    /// What neither may exceed.
    pub limit: f64,
}

/// SLOs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SloList {
    pub items: Vec<SloAnswer>,
}
