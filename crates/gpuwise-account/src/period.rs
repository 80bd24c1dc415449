//! Intervals of time, and civil months in UTC.

use gpuwise_units::{Nanoseconds, ParseQuantityError};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use std::{fmt, str::FromStr};

/// Nanoseconds of an hour.
pub const HOUR: u64 = 3_600_000_000_000;
/// Nanoseconds of a day.
pub const DAY: u64 = 24 * HOUR;

/// From `start` on, up to and without `end`; nanoseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Interval {
    pub start: Nanoseconds,
    /// Not part of it; [`Nanoseconds`]' largest: without end.
    pub end: Nanoseconds,
}

impl Interval {
    /// From nanoseconds; one that would end before it starts is empty.
    pub const fn new(start: Nanoseconds, end: Nanoseconds) -> Self {
        let end = if end.0 < start.0 { start } else { end };
        Self { start, end }
    }

    /// From a moment on, without end.
    pub const fn since(start: Nanoseconds) -> Self {
        Self::new(start, Nanoseconds(u64::MAX))
    }

    /// Its length in nanoseconds.
    pub const fn length(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    pub const fn contains(self, at: Nanoseconds) -> bool {
        self.start.0 <= at.0 && at.0 < self.end.0
    }

    /// What is in both; empty where nothing is.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    pub fn overlaps(self, other: Self) -> bool {
        !self.within(other).is_empty()
    }
}

/// A civil month in UTC, such as `2026-11`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Month {
    year: i16,
    month: i8,
}

impl Month {
    /// The month of a moment.
    pub fn of(at: Nanoseconds) -> Self {
        let date = date_of(at);
        Self {
            year: date.year(),
            month: date.month(),
        }
    }

    /// From its first day on, up to the next month's.
    pub fn interval(self) -> Interval {
        Interval::new(self.start(), self.next().start())
    }

    /// Its first instant.
    pub fn start(self) -> Nanoseconds {
        midnight(Date::constant(self.year, self.month, 1))
    }

    #[must_use]
    pub const fn next(self) -> Self {
        match self.month {
            12 => Self {
                year: self.year + 1,
                month: 1,
            },
            month => Self {
                year: self.year,
                month: month + 1,
            },
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for Month {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let fail = || ParseQuantityError {
            text: given.into(),
            expected: "a month from 1970 to 2500, such as `2026-11`".into(),
        };
        let (year, month) = given.split_once('-').ok_or_else(fail)?;
        let digits = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(year, 4) || !digits(month, 2) {
            return Err(fail());
        }
        let (year, month) = (
            year.parse().map_err(|_| fail())?,
            month.parse().map_err(|_| fail())?,
        );
        if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) {
            return Err(fail());
        }
        Ok(Self { year, month })
    }
}

gpuwise_units::named! {
    /// How often a budget starts anew: civil periods in UTC, weeks from Monday on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Every:
        name
    {
        Day = "day",
        Week = "week",
        Month = "month",
        Quarter = "quarter",
        Year = "year",
    }
}

impl Every {
    /// The period that holds a moment.
    pub fn period_of(self, at: Nanoseconds) -> Interval {
        let day = at.0 / DAY * DAY;
        let month = Month::of(at);
        let first = |month: i8| Month {
            year: Month::of(at).year,
            month,
        };
        let (start, end) = match self {
            Self::Day => (day, day.saturating_add(DAY)),
            Self::Week => {
                // 1970-01-01 was a Thursday, three days after a Monday.
                let start = day.saturating_sub((at.0 / DAY + 3) % 7 * DAY);
                (start, start.saturating_add(7 * DAY))
            }
            Self::Month => return month.interval(),
            Self::Quarter => {
                let start = first((month.month - 1) / 3 * 3 + 1);
                (start.start().0, start.next().next().next().start().0)
            }
            Self::Year => (first(1).start().0, first(12).next().start().0),
        };
        Interval::new(Nanoseconds(start), Nanoseconds(end))
    }
}

/// A moment as ISO 8601 has it, in UTC and whole seconds: `2026-11-01T00:00:00Z`.
pub fn moment(at: Nanoseconds) -> String {
    let moment = Timestamp::from_second(seconds(at)).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn seconds(at: Nanoseconds) -> i64 {
    // 2⁶⁴ ns end in the year 2554, which is within jiff's.
    i64::try_from(at.0 / 1_000_000_000).unwrap_or(i64::MAX)
}

fn date_of(at: Nanoseconds) -> Date {
    Timestamp::from_second(seconds(at))
        .map_or(Date::MAX, |moment| TimeZone::UTC.to_datetime(moment).date())
}

fn midnight(date: Date) -> Nanoseconds {
    let moment = date.to_zoned(TimeZone::UTC).ok();
    let at = moment.map_or(0, |zoned| zoned.timestamp().as_nanosecond());
    // Before 1970 nothing is metered; past 2554 nothing is told apart.
    Nanoseconds(u64::try_from(at.max(0)).unwrap_or(u64::MAX))
}
