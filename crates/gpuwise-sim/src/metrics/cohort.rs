//! Requests that were due in the steady window: how many came, were served and met their targets, all of
//! the same requests and over the same time.

use gpuwise_units::{Nanoseconds, PerSecond, Seconds};
use std::cmp::Ordering;

/// How many of those that were due together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cohort {
    /// Requests that an SLO holds for.
    pub(super) with_slo: u64,
    pub(super) served: u64,
    /// Of those with an SLO, those that were served and met every target.
    pub(super) met: u64,
}

impl Cohort {
    fn add(&mut self, one: Self) {
        self.with_slo += one.with_slo;
        self.served += one.served;
        self.met += one.met;
    }
}

/// Those of the window, which ends when the last request is due: that one is outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cohorts {
    all: Cohort,
    /// Those due last so far.
    last: Cohort,
    last_due: u64,
    /// When the first and the last of those that were served ended.
    served_from: u64,
    served_to: u64,
    growth: Growth,
}

/// A line through how long served requests took, over when they were due: sums of both in microseconds, which no order
/// of requests changes.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    count: i128,
    due: i128,
    due_squared: i128,
    took: i128,
    both: i128,
}

impl Growth {
    fn add(&mut self, due: u64, end: u64) {
        let took = i128::from(end.saturating_sub(due) / 1000);
        let due = i128::from(due / 1000);
        self.count += 1;
        self.due += due;
        self.due_squared = self.due_squared.saturating_add(due * due);
        self.took += took;
        self.both = self.both.saturating_add(due * took);
    }

    /// Seconds by which requests take longer for each second that they are due later; 0 where they do not.
    fn slope(&self) -> f64 {
        let [count, due, squared, took, both] =
            [self.count, self.due, self.due_squared, self.took, self.both].map(|sum| sum as f64);
        let spread = count * squared - due * due;
        if spread <= 0.0 {
            return 0.0;
        }
        ((count * both - due * took) / spread).max(0.0)
    }
}

impl Default for Cohorts {
    fn default() -> Self {
        Self {
            all: Cohort::default(),
            last: Cohort::default(),
            last_due: 0,
            served_from: u64::MAX,
            served_to: 0,
            growth: Growth::default(),
        }
    }
}

impl Cohorts {
    /// A request was due and ended, in any order; `one` is `None` where it was due before the window.
    pub(super) fn request(&mut self, due: u64, end: u64, one: Option<Cohort>) {
        let one = one.unwrap_or_default();
        if one.served > 0 {
            self.served_from = self.served_from.min(end);
            self.served_to = self.served_to.max(end);
            self.growth.add(due, end);
        }
        self.all.add(one);
        match due.cmp(&self.last_due) {
            Ordering::Greater => {
                self.last = one;
                self.last_due = due;
            }
            Ordering::Equal => self.last.add(one),
            Ordering::Less => {}
        }
    }

    /// Requests a second that were due in the window; `None` where it is empty.
    pub(super) fn delivered(&self, window: Seconds) -> Option<PerSecond> {
        let due = self.all.with_slo - self.last.with_slo;
        (window.get() > 0.0).then(|| PerSecond::new(due as f64 / window.get()))
    }

    /// Those that were served, a second of the time in which they were due, or of that in which they ended where more
    /// came than was served: then each takes longer than those before it. A few that take long at the end of a run do
    /// not make it longer.
    pub(super) fn served(&self, window: Seconds) -> Option<PerSecond> {
        self.rate(self.all.served - self.last.served, window)
    }

    /// Those that met every target, over the same time.
    pub(super) fn met(&self, window: Seconds) -> Option<PerSecond> {
        self.rate(self.all.met - self.last.met, window)
    }

    fn rate(&self, count: u64, window: Seconds) -> Option<PerSecond> {
        let ended = Nanoseconds(self.served_to.saturating_sub(self.served_from));
        let longest = window.get().max(ended.seconds().get());
        let lasted = (window.get() * (1.0 + self.growth.slope())).min(longest);
        (window.get() > 0.0).then(|| PerSecond::new(count as f64 / lasted))
    }
}
