//! The moments at which used amounts are kept apart.

use crate::period::{DAY, HOUR, Interval};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeSet;

/// Full hours, and where else a price begins or ends: amounts on both sides are kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Grid {
    /// Moments within an hour.
    pub(crate) cuts: BTreeSet<u64>,
    /// Moments within an hour of each day, in nanoseconds since midnight UTC.
    pub(crate) daily: BTreeSet<u64>,
}

impl Grid {
    /// Cuts at a moment.
    pub fn cut(&mut self, at: Nanoseconds) {
        if !at.0.is_multiple_of(HOUR) {
            self.cuts.insert(at.0);
        }
    }

    /// Cuts each day, so many nanoseconds after midnight UTC.
    pub fn cut_daily(&mut self, after_midnight: u64) {
        if !after_midnight.is_multiple_of(HOUR) {
            self.daily.insert(after_midnight % DAY);
        }
    }

    /// The cell that holds a moment.
    pub(crate) fn cell(&self, at: u64) -> Interval {
        let hour = at / HOUR * HOUR;
        let (mut start, mut end) = (hour, hour.saturating_add(HOUR));
        if !self.cuts.is_empty() {
            let before = self.cuts.range(..=at).next_back();
            start = before.map_or(start, |cut| start.max(*cut));
            let after = self.cuts.range(at.saturating_add(1)..).next();
            end = after.map_or(end, |cut| end.min(*cut));
        }
        if !self.daily.is_empty() {
            let midnight = at / DAY * DAY;
            let within = at - midnight;
            let before = self.daily.range(..=within).next_back();
            start = before.map_or(start, |cut| start.max(midnight + cut));
            let after = self.daily.range(within + 1..).next();
            end = after.map_or(end, |cut| end.min(midnight.saturating_add(*cut)));
        }
        Interval::new(Nanoseconds(start), Nanoseconds(end))
    }
}
