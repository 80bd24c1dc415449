//! The one clock of a run.

use gpuwise_units::Nanoseconds;
use std::time::{Duration, Instant};

/// Counts nanoseconds from its start; it never goes back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The time since its start.
    pub fn now(&self) -> Nanoseconds {
        Nanoseconds(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// How long it is until then; zero where it is past.
    pub fn until(&self, then: Nanoseconds) -> Duration {
        Duration::from_nanos(then.0.saturating_sub(self.now().0))
    }
}
