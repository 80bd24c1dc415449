//! Why a wall clock is not believed.

use gpuwise_units::Nanoseconds;

/// Why the machine's clock is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    #[error("this machine's clock says {}, which is before this program was released", at(*wall))]
    Early { wall: Nanoseconds },
    #[error("this machine's clock says {}, years after this program was released", at(*wall))]
    Late { wall: Nanoseconds },
    #[error(
        "the log was last written at {}, which is {} ahead of this machine's clock ({})",
        at(*last), long(last.0.saturating_sub(wall.0)), at(*wall)
    )]
    LogAhead {
        wall: Nanoseconds,
        last: Nanoseconds,
    },
    #[error(
        "this machine's clock says {}, which is {} after the log was last written ({})",
        at(*wall), long(wall.0.saturating_sub(last.0)), at(*last)
    )]
    LogBehind {
        wall: Nanoseconds,
        last: Nanoseconds,
    },
    #[error(
        "this machine's clock was set back by {} to {}, and the log has times after that",
        long(now.0.saturating_sub(wall.0)), at(*wall)
    )]
    SetBack { wall: Nanoseconds, now: Nanoseconds },
    #[error(
        "this machine's clock was set forward by {} to {}",
        long(wall.0.saturating_sub(now.0)), at(*wall)
    )]
    SetForward { wall: Nanoseconds, now: Nanoseconds },
}

/// A moment in UTC, to the second.
fn at(moment: Nanoseconds) -> String {
    let seconds = i64::try_from(moment.0 / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("{seconds} s since 1970"), |at| at.to_string())
}

/// A length of time in its two largest units.
fn long(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units {
        if left >= length {
            parts.push(format!("{} {unit}", left / length));
            left %= length;
        }
    }
    parts.truncate(2);
    if parts.is_empty() {
        return "less than 1 s".into();
    }
    parts.join(" ")
}
