//! The broker's time: UTC, or simulated time that runs faster.

use gpuwise_units::Nanoseconds;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time that never goes back, whatever the machine's clock does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    base: Nanoseconds,
    started: Instant,
    /// Seconds of this clock in a second.
    speed: f64,
}

impl Clock {
    /// Goes on from the machine's clock, or from the last event of the log where that is later.
    pub(crate) fn new(last: Nanoseconds, speed: f64) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
        Self {
            base: Nanoseconds(wall.max(last.0)),
            started: Instant::now(),
            speed,
        }
    }

    pub(crate) fn now(&self) -> Nanoseconds {
        let passed = self.started.elapsed().as_secs_f64() * self.speed;
        Nanoseconds(self.base.0.saturating_add((passed * 1e9) as u64))
    }

    /// How long it takes until then.
    pub(crate) fn until(&self, then: Nanoseconds) -> Duration {
        let left = then.0.saturating_sub(self.now().0) as f64 / 1e9 / self.speed;
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
    }
}
