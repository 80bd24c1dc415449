//! Jobs that wait or run.

use gpuwise_domain::placement::{Job, Seat};
use gpuwise_units::Nanoseconds;

/// A job as it is now.
#[derive(Debug, Clone)]
pub struct JobState {
    /// What was asked for.
    pub job: Job,
    /// Whether it waits, starts or runs.
    pub phase: Phase,
    /// Where its workers are; empty while it waits.
    pub seats: Vec<Seat>,
    /// How often it was stopped or lost its place.
    pub stops: u32,
    /// How busy its GPUs were when last measured, in thousandths of the time.
    pub busy_milli: Option<u32>,
}

/// Whether a job waits, starts or runs, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits.
    Waiting {
        /// Since when.
        since: Nanoseconds,
    },
    /// Its seats are held, and it is being started, moved or resized.
    Starting {
        /// Since when.
        since: Nanoseconds,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Nanoseconds,
    },
    /// It was idle, and others have its GPUs; it gets some back when it has work again.
    Reclaimed {
        /// Since when.
        since: Nanoseconds,
    },
}

impl Phase {
    /// Since when.
    pub const fn since(self) -> Nanoseconds {
        match self {
            Self::Waiting { since }
            | Self::Starting { since }
            | Self::Running { since }
            | Self::Reclaimed { since } => since,
        }
    }

    /// Whether it waits for a place.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Waiting { .. })
    }
}
