//! Leases and their lives.

use gpuwise_domain::placement::{Assignment, JobId};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{EndedHow, LeaseAsk, LeaseSize};

gpuwise_units::named! {
    /// Where a lease is in its life.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
    pub enum LeaseState:
        name
    {
        /// It waits for a place.
        Requested = "requested",
        /// It has a place that is being made ready: somebody leaves, an instance is created.
        Reserved = "reserved",
        /// What runs on it is being started.
        Starting = "starting",
        Active = "active",
        /// The system that runs it has halted it: it keeps its GPUs, does not run, and is not charged.
        Halted = "halted",
        /// It lost its place for others, or was idle, and gets one back.
        Suspended = "suspended",
        /// It was told to end, and still holds its GPUs.
        Draining = "draining",
        Ended = "ended",
        Failed = "failed",
    }
}

impl LeaseState {
    /// Whether nothing more happens to it.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Failed)
    }

    /// Whether it has GPUs.
    pub const fn holds(self) -> bool {
        matches!(
            self,
            Self::Reserved | Self::Starting | Self::Active | Self::Halted | Self::Draining
        )
    }
}

/// A lease.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Lease {
    /// Its number: 42 is `L-42`.
    pub number: u32,
    #[serde(with = "crate::image::document")]
    pub ask: LeaseAsk,
    #[serde(with = "crate::image::document")]
    pub size: Option<LeaseSize>,
    /// The deployment of its model, as `gpuwise plan --save` writes it.
    pub deployment: Option<String>,
    /// Its number, or that of the first lease in whose place it came: what they serve is one service.
    pub origin: u32,
    /// The first lease of the service of which it is one more replica.
    pub replica_of: Option<u32>,
    /// The name of the token that asked for it.
    pub by: Option<String>,
    pub requested: Nanoseconds,
    /// For how long, from when it was first active; `None`: until it is released or its command ends.
    pub length: Option<Nanoseconds>,
    /// When it was first active.
    pub started: Option<Nanoseconds>,
    /// Where it is; its last place once it has ended.
    pub place: Vec<Assignment>,
    /// What the kernel weighed when it placed it last, by name.
    pub weighed: Vec<(String, i64)>,
    /// Nodes that had room then.
    pub candidates: u32,
    /// Starts that failed one after the other.
    pub failed_starts: u32,
    /// Why the last of them did.
    #[serde(default)]
    pub failed_because: Option<String>,
    /// What became of failures of what runs.
    pub restarts: crate::Restarts,
    /// What freeing its idle GPUs took, and what their return, the last ones last.
    pub freed: Vec<Nanoseconds>,
    pub returned: Vec<Nanoseconds>,
    /// What its starts took, from when it was told to start until it was active, the last ones last.
    #[serde(default)]
    pub starts: Vec<Nanoseconds>,
    /// Since when the system that runs it has halted it, and what that says.
    #[serde(default)]
    pub halted: Option<(Nanoseconds, String)>,
    /// Since when it is told to end, and why.
    pub draining: Option<(Nanoseconds, String)>,
    pub over: Option<Over>,
}

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Over {
    /// When it ended: until then it is metered.
    pub at: Nanoseconds,
    pub how: EndedHow,
    pub reason: String,
    pub exit_code: Option<i32>,
}

impl Lease {
    /// The kernel's number of its job.
    pub const fn job(&self) -> JobId {
        JobId(self.number)
    }

    /// `L-42`.
    pub fn id(&self) -> String {
        lease_id(self.number)
    }

    /// The 99th percentile of times, the longest of fewer than a hundred; `None`: there are none.
    pub fn p99(times: &[Nanoseconds]) -> Option<Nanoseconds> {
        Self::percentile(times, 99)
    }

    /// The time within which so many percent of them are; `None`: there are none.
    pub fn percentile(times: &[Nanoseconds], percent: usize) -> Option<Nanoseconds> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let place = (sorted.len() * percent).div_ceil(100);
        sorted.get(place.checked_sub(1)?).copied()
    }

    /// When its time is over; `None`: it has not started, or has no end.
    pub fn ends(&self) -> Option<Nanoseconds> {
        Some(self.started? + self.length?)
    }
}

/// The id of a lease as people see it.
pub fn lease_id(number: u32) -> String {
    format!("L-{number}")
}

/// The number of `L-42`, or of `42`.
pub fn lease_number(id: &str) -> Option<u32> {
    id.strip_prefix("L-").unwrap_or(id).parse().ok()
}
