//! A counter that others keep, and that starts anew when they do.

use crate::period::{DAY, HOUR, Interval};
use gpuwise_units::Nanoseconds;

/// Samples of a counter with resets taken out, as Prometheus does: a value below the last one means that
/// the counter began again at 0, so that all of it is new.
///
/// Unlike Prometheus' `increase` nothing is extrapolated to the window's ends: ratios of two counters that
/// are sampled together, which is what service levels are, come out the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Times, and what was counted up to then since the first sample.
    samples: Vec<(Nanoseconds, u64)>,
    /// The last value as it was read.
    last: Option<u64>,
    keep: Nanoseconds,
}

impl Counter {
    /// One that remembers so long; older samples stand farther apart.
    pub const fn new(keep: Nanoseconds) -> Self {
        Self {
            samples: Vec::new(),
            last: None,
            keep,
        }
    }

    /// Takes a value; `false`: its time is not after the last one's, and it is not taken.
    pub fn sample(&mut self, at: Nanoseconds, value: u64) -> bool {
        let (before, total) = self.samples.last().copied().unzip();
        if before.is_some_and(|before| at <= before) {
            return false;
        }
        let new = match self.last {
            None => 0,
            Some(last) if value >= last => value - last,
            Some(_) => value,
        };
        self.last = Some(value);
        let total: u64 = total.unwrap_or(0);
        self.samples.push((at, total.saturating_add(new)));
        // Amortised: each thinning halves what is old.
        if self.samples.len().is_power_of_two() && self.samples.len() >= 1024 {
            self.thin(at);
        }
        true
    }

    /// By how much it grew from the first sample within a window to the last.
    pub fn increase(&self, window: Interval) -> u64 {
        let first = self.samples.partition_point(|(at, _)| *at < window.start);
        let end = self.samples.partition_point(|(at, _)| *at <= window.end);
        match self.samples.get(first..end) {
            Some([(_, first), .., (_, last)]) => last - first,
            _ => 0,
        }
    }

    /// The farther back, the farther apart: every sample of an hour, a minute apart up to a day, ten
    /// beyond. The windows of [`super::Rule`] move by less than a hundredth.
    fn thin(&mut self, now: Nanoseconds) {
        let mut kept: Option<Nanoseconds> = None;
        let keep = self.keep;
        self.samples.retain(|(at, _)| {
            let age = now.0.saturating_sub(at.0);
            let apart = match age {
                _ if age > keep.0.saturating_add(HOUR) => return false,
                0..=HOUR => 0,
                _ if age <= DAY => 60_000_000_000,
                _ => 600_000_000_000,
            };
            let far = kept.is_none_or(|kept| at.0 - kept.0 >= apart);
            if far {
                kept = Some(*at);
            }
            far
        });
    }
}
