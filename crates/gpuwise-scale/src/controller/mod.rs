//! How many replicas serve, and how many are warm beside them.
//!
//! A [`Controller`] is asked every period with what was [`Observed`] and answers with a [`Decision`]: what it wants,
//! and which of its rules that came from. [`Gpuwise`] is ours; [`crate::peers`] are others'.

mod demand;
mod doubt;
mod highest;
mod ours;
mod rules;
mod spares;
pub mod variants;

pub use doubt::{Doubt, IMPLAUSIBLE};
pub use ours::Gpuwise;
pub use rules::{
    LONGEST_IDLE, LONGEST_START, MOST_RATE, MOST_REPLICAS, RequestTokens, RuleProblem, Rules,
};

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// Beyond such a share of the cache that is used, what runs is a queue: engines take nothing more, or evict.
pub const CROWDED: f64 = 0.9;

/// What a controller sees of a service when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    pub now: Nanoseconds,
    /// Requests that arrived since it was last asked; `None`: metrics say nothing.
    pub arrived: Option<f64>,
    /// Requests that wait, and that run.
    pub queued: f64,
    pub running: f64,
    /// Replicas that serve, that start (from nothing, or wake), that are warm, and that are on the way to be warm.
    pub ready: u32,
    pub starting: u32,
    pub warm: u32,
    pub warming: u32,
    /// Requests since the beginning, and those of them beyond the SLO.
    pub requests: f64,
    pub late: f64,
    /// How long the last replica took from nothing until it served, where one became ready since it was last asked.
    pub started: Option<Nanoseconds>,
    /// Tokens since it was last asked; `None`: nobody counts them.
    #[serde(default)]
    pub tokens: Option<TokensSeen>,
    /// The share of the key-value cache that is used, of all replicas that serve; `None`: it is not known.
    #[serde(default)]
    pub cache: Option<f64>,
}

impl Observed {
    /// Replicas that serve or start.
    pub const fn serving(&self) -> u32 {
        self.ready.saturating_add(self.starting)
    }

    /// Replicas that are warm or on the way to be.
    pub const fn spares(&self) -> u32 {
        self.warm.saturating_add(self.warming)
    }
}

/// Tokens of a service.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensSeen {
    /// Of prompts that came, and of answers that were decoded.
    pub prompts: f64,
    pub answers: f64,
}

/// What a controller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Replicas that serve.
    pub replicas: u32,
    /// Replicas that are warm beside them: they wake quickly, and are lent meanwhile.
    pub warm: u32,
}

/// The rule that a number of replicas came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Demand needs so many.
    #[default]
    Demand,
    /// Demand, and a queue that is to drain.
    Queue,
    /// What is there is enough, and not so much more that a change pays.
    Band,
    /// More were needed a moment ago.
    Hold,
    /// Metrics say nothing: what is there stays.
    NoMetrics,
    /// So much came that it is held back for a period: what is there stays.
    Implausible,
    /// Replicas were started and did not get ready: no more are started.
    NotReady,
    /// The policy's bounds.
    Min,
    Max,
    /// Nothing came for as long as the policy says.
    Idle,
}

/// What is wanted, why, and what it was found from.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Decision {
    pub wanted: Wanted,
    pub because: Because,
    /// Requests a second that arrive now, and that serving and warm replicas together are to cover.
    pub demand: f64,
    pub covered: f64,
}

impl From<Wanted> for Decision {
    fn from(wanted: Wanted) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }
}

impl Decision {
    /// So many replicas, none of them warm.
    pub fn replicas(replicas: u32) -> Self {
        Self::from(Wanted { replicas, warm: 0 })
    }
}

/// Decides how many replicas a service has.
pub trait Controller {
    /// Between two decisions.
    fn period(&self) -> Nanoseconds;

    fn decide(&mut self, seen: &Observed) -> Decision;

    /// Replicas with which a run of it begins; `None`: as many as the first reading needs.
    fn begins(&self) -> Option<u32> {
        None
    }
}
