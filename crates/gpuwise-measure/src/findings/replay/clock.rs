//! Time of the host where some of it is gone.

use crate::figures::intervals::Intervals;

/// New time of the host for old: what is removed, and where waits now return.
pub(super) struct Clock<'c> {
    removed: &'c Intervals,
    /// Nanoseconds removed before each of its ranges.
    sums: Vec<i64>,
    /// Old instants of returns, and how much earlier they are now beyond what was removed.
    returns: Vec<(i64, i64)>,
}

impl<'c> Clock<'c> {
    pub(super) fn new(removed: &'c Intervals) -> Self {
        let mut sum = 0;
        let ranges = removed.ranges().iter();
        Self {
            removed,
            sums: ranges
                .map(|(start, end)| {
                    let before = sum;
                    sum += end - start;
                    before
                })
                .collect(),
            returns: Vec::new(),
        }
    }

    /// Nanoseconds removed before an instant.
    fn gone(&self, at: i64) -> i64 {
        let ranges = self.removed.ranges();
        let place = ranges.partition_point(|range| range.0 < at);
        let Some(last) = place.checked_sub(1) else {
            return 0;
        };
        let before = self.sums.get(last).copied().unwrap_or(0);
        ranges
            .get(last)
            .map_or(before, |range| before + at.min(range.1) - range.0)
    }

    pub(super) fn at(&self, old: i64) -> i64 {
        let place = self.returns.partition_point(|known| known.0 <= old);
        let earlier = place.checked_sub(1).and_then(|last| self.returns.get(last));
        old - self.gone(old) - earlier.map_or(0, |known| known.1)
    }

    /// What happened at an old instant happens at the new one; all that follows is moved with it.
    pub(super) fn arrive(&mut self, old: i64, new: i64) {
        if self.returns.last().is_none_or(|known| known.0 < old) {
            self.returns.push((old, old - self.gone(old) - new));
        }
    }
}
