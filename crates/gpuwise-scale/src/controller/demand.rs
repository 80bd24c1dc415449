//! What arrives now, and how much it varies.

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Over how long arrivals are a mean.
const WINDOW_SECONDS: f64 = 60.0;
/// Shorter windows count less so many standard deviations: chance seldom reaches beyond, a rise does at once.
const SURE: f64 = 2.0;
const SHORT_SECONDS: [f64; 2] = [15.0, 30.0];
/// The share that a minute moves the dispersion.
const LEARNS: f64 = 0.05;

/// Arrivals of the last minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Arrivals {
    period: Nanoseconds,
    recent: VecDeque<f64>,
    /// Periods since the dispersion was last looked at.
    since: usize,
    /// Variance of arrivals over their mean: 1 where they come independently of one another.
    dispersion: f64,
}

impl Arrivals {
    pub(super) const fn new(period: Nanoseconds) -> Self {
        Self {
            period,
            recent: VecDeque::new(),
            since: 0,
            dispersion: 1.0,
        }
    }

    fn most(&self) -> usize {
        (WINDOW_SECONDS / self.period.seconds().get())
            .ceil()
            .max(1.0) as usize
    }

    pub(super) fn take(&mut self, arrived: f64) {
        self.recent.push_back(arrived);
        if self.recent.len() > self.most() {
            self.recent.pop_front();
        }
        self.since += 1;
        if self.since >= self.most() && self.recent.len() > 1 {
            self.since = 0;
            self.learn();
        }
    }

    fn learn(&mut self) {
        let count = self.recent.len() as f64;
        let mean = self.recent.iter().sum::<f64>() / count;
        if mean > 0.0 {
            let squares = self.recent.iter().map(|one| (one - mean) * (one - mean));
            let variance = squares.sum::<f64>() / (count - 1.0);
            self.dispersion += LEARNS * (variance / mean - self.dispersion);
        }
    }

    pub(super) fn dispersion(&self) -> f64 {
        self.dispersion.max(1.0)
    }

    /// Requests a second over the last seconds.
    fn over(&self, seconds: f64) -> f64 {
        let period = self.period.seconds().get();
        let periods = (seconds / period).ceil().max(1.0) as usize;
        let count = periods.min(self.recent.len()).max(1);
        self.recent.iter().rev().take(count).sum::<f64>() / (count as f64 * period)
    }

    /// Requests a second over a minute.
    pub(super) fn minute(&self) -> f64 {
        self.over(WINDOW_SECONDS)
    }

    /// Requests a second now: over a minute, or what shorter windows are sure of.
    pub(super) fn now(&self) -> f64 {
        let short = SHORT_SECONDS.iter().map(|seconds| {
            let mean = self.over(*seconds);
            mean - SURE * self.deviation(mean, *seconds)
        });
        short.fold(self.minute(), f64::max)
    }

    /// Standard deviation of a rate that was counted for so long, by chance alone.
    pub(super) fn deviation(&self, rate: f64, seconds: f64) -> f64 {
        libm::sqrt(self.dispersion() * rate.max(0.0) / seconds)
    }

    /// Standard deviation of the rate over a minute.
    pub(super) fn deviation_of_minute(&self, rate: f64) -> f64 {
        self.deviation(rate, WINDOW_SECONDS)
    }
}
