//! Times of the week.

use crate::period::DAY;
use gpuwise_units::Nanoseconds;

const MINUTE: u64 = 60_000_000_000;
const MINUTES_A_DAY: u16 = 1440;

/// The same hours on some days of the week, by a fixed distance to UTC: summer time is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Window {
    /// Bits of the days on which it begins; Monday is the lowest.
    pub days: u8,
    /// Minutes after midnight.
    pub from: u16,
    /// Minutes after midnight, not part of it; at or before `from`: of the next day.
    pub to: u16,
    /// How far local time is ahead of UTC, in minutes.
    pub ahead_of_utc: i16,
}

impl Window {
    /// Whether days and minutes are such, and some day is meant.
    pub const fn is_possible(self) -> bool {
        self.days != 0
            && self.days < 0x80
            && self.from < MINUTES_A_DAY
            && self.to <= MINUTES_A_DAY
            && self.ahead_of_utc.unsigned_abs() < MINUTES_A_DAY
    }

    pub fn contains(self, at: Nanoseconds) -> bool {
        let local = (at.0 / MINUTE).cast_signed() + i64::from(self.ahead_of_utc);
        let day = local.div_euclid(i64::from(MINUTES_A_DAY));
        let minute = local.rem_euclid(i64::from(MINUTES_A_DAY)) as u16;
        // 1970-01-01 was a Thursday.
        let begins = |day: i64| self.days & (1 << (day + 3).rem_euclid(7)) != 0;
        if self.from < self.to {
            return begins(day) && self.from <= minute && minute < self.to;
        }
        (begins(day) && self.from <= minute) || (begins(day - 1) && minute < self.to)
    }

    /// Moments of each day, in nanoseconds after midnight UTC, at which it may begin or end.
    pub fn daily(self) -> [u64; 2] {
        // Days begin and end it too, where only some are meant; both are among these where it is whole days.
        [self.from, self.to].map(|minute| {
            let utc = i64::from(minute) - i64::from(self.ahead_of_utc);
            utc.rem_euclid(i64::from(MINUTES_A_DAY)).cast_unsigned() * MINUTE % DAY
        })
    }
}
