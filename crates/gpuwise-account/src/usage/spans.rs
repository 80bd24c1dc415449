//! A set of moments as sorted intervals that do not touch.

use crate::period::Interval;
use gpuwise_units::Nanoseconds;

/// Time as disjoint intervals in order; what touches is one.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Spans(Vec<Interval>);

impl Spans {
    /// Adds an interval; what was there already stays as it is.
    pub fn insert(&mut self, added: Interval) {
        if added.is_empty() {
            return;
        }
        // Records mostly come in order: at the end.
        let first = match self.0.last() {
            Some(last) if added.start > last.end => self.0.len(),
            _ => self.0.partition_point(|span| span.end < added.start),
        };
        let touching = self.0[first..].partition_point(|span| span.start <= added.end);
        if touching == 0 {
            self.0.insert(first, added);
            return;
        }
        let last = self.0[first + touching - 1];
        let whole = Interval::new(
            added.start.min(self.0[first].start),
            added.end.max(last.end),
        );
        self.0[first] = whole;
        self.0.drain(first + 1..first + touching);
    }

    /// In order of time.
    pub fn iter(&self) -> impl Iterator<Item = Interval> + '_ {
        self.0.iter().copied()
    }

    /// Those that share time with an interval, whole.
    pub fn touching(&self, interval: Interval) -> impl Iterator<Item = Interval> + '_ {
        let first = self.0.partition_point(|span| span.end <= interval.start);
        self.0[first..]
            .iter()
            .copied()
            .take_while(move |span| span.start < interval.end)
    }

    /// How much of an interval is in it, in nanoseconds.
    pub fn length_within(&self, interval: Interval) -> u64 {
        self.touching(interval)
            .map(|span| span.within(interval).length())
            .sum()
    }

    /// Forgets what ended before a moment.
    pub(crate) fn forget(&mut self, before: Nanoseconds) {
        self.0.retain(|span| span.end >= before);
    }
}
