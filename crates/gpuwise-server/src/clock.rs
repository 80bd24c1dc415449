//! The broker's time: the machine's wall clock, which it follows and never goes back behind, or simulated time
//! that runs faster.

mod error;
mod follow;

pub use error::ClockError;

use follow::{Follower, Reading};
use gpuwise_units::Nanoseconds;
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// No machine's clock is right before this: 2026-01-01, when this program was not yet released.
const RELEASED: u64 = 1_767_225_600_000_000_000;

/// A log that is new begins within so long of the release.
const LIFETIME: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// How far the wall clock may be from the log before the broker stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockLimits {
    /// How far it may be behind what is in the log, or be set back. Less is made up for by slower time.
    pub back: Nanoseconds,
    /// How far it may be ahead of when the log was last written, or be set forward.
    pub forward: Nanoseconds,
    /// Whether it is believed at this start all the same.
    pub accepted: bool,
}

impl ClockLimits {
    /// Ten minutes back, and 90 days forward: a broker may have been off for weeks.
    pub const USUAL: Self = Self {
        back: Nanoseconds(600 * 1_000_000_000),
        forward: Nanoseconds(90 * 86_400 * 1_000_000_000),
        accepted: false,
    };
}

/// Time that never goes back, whatever the machine's clock does.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    follower: Arc<Mutex<Follower>>,
    /// Seconds of this clock in a second; `None`: it follows the wall clock.
    speed: Option<f64>,
}

impl Clock {
    /// Goes on from when the log was last written. Simulated time goes on from there or from the wall clock,
    /// whichever is later.
    ///
    /// # Errors
    /// When the wall clock is too far from the log to be believed.
    pub(crate) fn start(
        last: Option<Nanoseconds>,
        speed: f64,
        limits: ClockLimits,
    ) -> Result<Self, ClockError> {
        let speed = ((speed - 1.0).abs() > 0.0).then_some(speed);
        let (wall, steady) = (wall(), steady());
        let mut shift = 0;
        if speed.is_none() && !limits.accepted {
            believable(wall, last, limits)?;
        } else if let Some(last) = last
            && last.0 > wall.saturating_add(limits.back.0)
        {
            // Hours keep their length: its time stays as far ahead as it is.
            shift = last.0 - wall;
        }
        let from = wall.max(last.unwrap_or_default().0);
        let follower = Follower::new(from, steady, shift, limits);
        Ok(Self {
            follower: Arc::new(Mutex::new(follower)),
            speed,
        })
    }

    fn read(&self) -> Reading {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        match self.speed {
            None => follower.read(wall(), steady()),
            Some(speed) => Reading {
                now: follower.passed(steady(), speed),
                wrong: None,
            },
        }
    }

    pub(crate) fn now(&self) -> Nanoseconds {
        self.read().now
    }

    /// The time, where the wall clock can be believed.
    ///
    /// # Errors
    /// When it cannot: nothing may happen at such a time.
    pub(crate) fn believed(&self) -> Result<Nanoseconds, ClockError> {
        let Reading { now, wrong } = self.read();
        wrong.map_or(Ok(now), Err)
    }

    /// How long it takes until then.
    pub(crate) fn until(&self, then: Nanoseconds) -> Duration {
        let speed = self.speed.unwrap_or(1.0);
        let left = then.0.saturating_sub(self.now().0) as f64 / 1e9 / speed;
        Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX)
    }

    /// How far this clock is ahead of the wall clock, where that was accepted at the start.
    pub(crate) fn shift(&self) -> Option<Nanoseconds> {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let shift = Nanoseconds(follower.shift());
        (self.speed.is_none() && shift.0 > 0).then_some(shift)
    }
}

/// Whether a log that was last written then may go on, or a new one begin, by this wall clock.
fn believable(wall: u64, last: Option<Nanoseconds>, limits: ClockLimits) -> Result<(), ClockError> {
    let wall_at = Nanoseconds(wall);
    if wall < RELEASED {
        return Err(ClockError::Early { wall: wall_at });
    }
    let Some(last) = last else {
        let late = wall > RELEASED + LIFETIME;
        return if late {
            Err(ClockError::Late { wall: wall_at })
        } else {
            Ok(())
        };
    };
    if last.0 > wall.saturating_add(limits.back.0) {
        return Err(ClockError::LogAhead {
            wall: wall_at,
            last,
        });
    }
    if wall > last.0.saturating_add(limits.forward.0) {
        return Err(ClockError::LogBehind {
            wall: wall_at,
            last,
        });
    }
    Ok(())
}

/// Nanoseconds since 1970, UTC, as the machine has it.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Nanoseconds since the machine started, those in which it was suspended among them.
fn steady() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = time.tv_sec.unsigned_abs();
    seconds.saturating_mul(1_000_000_000) + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400 * 1_000_000_000;

    #[test]
    fn a_start_needs_a_clock_that_fits_the_log() {
        let check = |wall: u64, last: Option<u64>, wanted: Option<&str>| {
            let found = believable(wall, last.map(Nanoseconds), ClockLimits::USUAL);
            let found = found.err().map(|error| error.to_string());
            let fits = match (&found, wanted) {
                (None, None) => true,
                (Some(found), Some(wanted)) => found.contains(wanted),
                _ => false,
            };
            assert!(fits, "{wall} {last:?}: {found:?}, not {wanted:?}");
        };
        let now = RELEASED + 300 * DAY;
        check(now, None, None);
        check(now, Some(now), None);
        check(now, Some(now - 89 * DAY), None);
        check(now, Some(now + 500_000_000_000), None);
        check(
            now,
            Some(now + 700_000_000_000),
            Some("11 min 40 s ahead of"),
        );
        check(now, Some(now + 8 * 365 * DAY), Some("2920 d ahead of"));
        check(now + 8 * 365 * DAY, Some(now), Some("2920 d after"));
        check(now + 20 * 365 * DAY, None, Some("years after this program"));
        check(0, None, Some("1970-01-01T00:00:00Z"));
        check(0, Some(now), Some("1970-01-01T00:00:00Z"));
    }

    #[test]
    fn a_clock_that_is_accepted_keeps_the_length_of_hours() {
        let ahead = Nanoseconds(wall() + 3_000 * DAY);
        let limits = ClockLimits::USUAL;
        assert!(Clock::start(Some(ahead), 1.0, limits).is_err());
        let accepted = ClockLimits {
            accepted: true,
            ..limits
        };
        let clock = Clock::start(Some(ahead), 1.0, accepted).expect("is accepted");
        let now = clock.believed().expect("is believed");
        assert!(now >= ahead && now.0 < ahead.0 + DAY, "{now:?}");
        assert!(clock.shift().is_some());
        // Simulated time is its own.
        let clock = Clock::start(Some(ahead), 60.0, limits).expect("starts");
        assert!(clock.believed().expect("is believed") >= ahead);
        assert_eq!(clock.shift(), None);
    }
}
