//! What a meter takes, and what becomes of what it does not.

use super::UsageRecord;
use crate::period::{DAY, Month};
use gpuwise_units::Nanoseconds;

/// What a meter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// So long after its end a month stays open: what comes later is a correction.
    pub grace: Nanoseconds,
    /// So far ahead of the clock a record may end.
    pub ahead: Nanoseconds,
    /// So long ago a record may have ended.
    pub behind: Nanoseconds,
    /// So long a record may last.
    pub longest: Nanoseconds,
}

impl Default for Limits {
    /// Three days of grace; five minutes ahead; a quarter back; a quarter long.
    fn default() -> Self {
        Self {
            grace: Nanoseconds(3 * DAY),
            ahead: Nanoseconds(300_000_000_000),
            behind: Nanoseconds(92 * DAY),
            longest: Nanoseconds(92 * DAY),
        }
    }
}

gpuwise_units::named! {
    /// Why a record does not count.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Reason:
        name,
        /// In a sentence.
        sentence
    {
        Negative = "negative", "it ends before it starts: the source's clock went back",
        Ahead = "ahead", "it ends in the future: the source's clock is ahead",
        TooOld = "too-old", "it ended longer ago than records are taken",
        TooLong = "too-long", "it lasts longer than records may",
        Impossible = "impossible", "it grants more than the whole of a device, or a part of nothing",
        TooLarge = "too-large", "its amounts leave 64 bits",
        Nameless = "nameless", "its source, id, tenant or lease is empty",
    }
}

/// What became of a record.
#[must_use = "a record that does not count is money that is not charged"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It changes months that are open.
    Counted,
    /// It changes a month that was closed, the first such: the month's statement is corrected.
    Correction(Month),
    /// It was counted before.
    Duplicate,
    /// It is kept aside and counts for nothing, until the source sends it again in order.
    Aside(Reason),
}

/// A record that does not count, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Aside {
    pub record: UsageRecord,
    pub reason: Reason,
    /// When it came.
    pub at: Nanoseconds,
}
