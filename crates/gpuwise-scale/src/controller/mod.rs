//! How many replicas and warm spares are wanted.

mod ours;

pub use ours::{Gpuwise, Rules};

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// What a controller sees of a service when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observed {
    pub now: Nanoseconds,
    /// Requests that arrived since it was last asked; `None`: metrics say nothing.
    pub arrived: Option<f64>,
    /// Requests that wait, and that run.
    pub queued: f64,
    pub running: f64,
    /// Replicas that serve, that start (from nothing, or wake), and that are warm.
    pub ready: u32,
    pub starting: u32,
    pub warm: u32,
    /// Requests since the beginning, and those of them beyond the SLO.
    pub requests: f64,
    pub late: f64,
}

/// What it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Replicas that serve.
    pub replicas: u32,
    /// Replicas that are warm beside them: they wake quickly, and are lent meanwhile.
    pub warm: u32,
}

/// Decides how many replicas a service has.
pub trait Controller {
    /// Between two decisions.
    fn period(&self) -> Nanoseconds;

    fn decide(&mut self, seen: &Observed) -> Wanted;
}
