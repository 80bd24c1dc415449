//! Drift of a series: when its level has moved for good, and not for a moment.

use crate::regress::noise::median;

/// How a detector judges. A series is held against its own first samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Samples from which level and spread are learnt.
    pub warm_up: usize,
    /// Deviations within this many standard deviations of the level count for nothing (the slack `k` of
    /// a CUSUM chart).
    pub slack: f64,
    /// A single deviation counts for at most this many standard deviations, so that outliers are none.
    pub largest: f64,
    /// The sum of deviations beyond the slack, in standard deviations, at which drift is said (`h`).
    pub threshold: f64,
    /// Spread below this is taken as this, in the series' unit: a flat series has none of its own.
    pub least_spread: f64,
    /// Samples at the other level that are needed before drift is said, so that one outlier is none.
    pub hold: usize,
}

impl Default for Settings {
    /// A CUSUM chart with a slack of one standard deviation is for shifts of two and more. By simulation
    /// (the crate's tests): some one false alarm in 10⁵ samples of Gaussian noise with an outlier of six
    /// standard deviations in every 250, level and spread being learnt from 60 samples; a shift of three
    /// is said after some five.
    fn default() -> Self {
        Self {
            warm_up: 60,
            slack: 1.0,
            largest: 4.0,
            threshold: 10.0,
            least_spread: 1e-9,
            hold: 3,
        }
    }
}

/// Where a series went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Number of the sample, from 0, since which it has moved, as far as the sums tell.
    pub since: u64,
    /// Number of the sample at which it was said.
    pub at: u64,
    pub from: f64,
    /// Its mean since it moved.
    pub to: f64,
}

/// A two-sided CUSUM chart that learns its level, says when it has moved, and learns the new one.
#[derive(Debug, Clone)]
pub struct Detector {
    settings: Settings,
    seen: u64,
    learning: Vec<f64>,
    level: f64,
    spread: f64,
    up: Side,
    down: Side,
}

#[derive(Debug, Clone, Copy, Default)]
struct Side {
    sum: f64,
    since: u64,
    total: f64,
    count: u64,
}

impl Side {
    /// Adds a deviation in standard deviations; the sum never falls below 0.
    fn add(&mut self, deviation: f64, slack: f64, value: f64, number: u64) {
        let next = self.sum + deviation - slack;
        if next <= 0.0 {
            *self = Self::default();
            return;
        }
        if self.count == 0 {
            self.since = number;
        }
        self.sum = next;
        self.total += value;
        self.count += 1;
    }
}

impl Detector {
    /// Of a series that has not begun.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            seen: 0,
            learning: Vec::new(),
            level: 0.0,
            spread: 0.0,
            up: Side::default(),
            down: Side::default(),
        }
    }

    /// The level that samples are held against, once it is learnt.
    pub fn level(&self) -> Option<f64> {
        (self.learning.len() >= self.settings.warm_up.max(2)).then_some(self.level)
    }

    /// Takes a sample; says where the series went when it has moved. What is no number is passed over.
    pub fn take(&mut self, value: f64) -> Option<Drift> {
        let number = self.seen;
        self.seen += 1;
        if !value.is_finite() {
            return None;
        }
        if self.learning.len() < self.settings.warm_up.max(2) {
            self.learning.push(value);
            if self.learning.len() == self.settings.warm_up.max(2) {
                self.learn();
            }
            return None;
        }
        let Settings { slack, largest, .. } = self.settings;
        let deviation = ((value - self.level) / self.spread).clamp(-largest.abs(), largest.abs());
        self.up.add(deviation, slack, value, number);
        self.down.add(-deviation, slack, value, number);
        let side = if self.up.sum >= self.down.sum {
            self.up
        } else {
            self.down
        };
        if side.sum < self.settings.threshold || side.count < self.settings.hold.max(1) as u64 {
            return None;
        }
        let drift = Drift {
            since: side.since,
            at: number,
            from: self.level,
            to: side.total / side.count as f64,
        };
        // Hysteresis: the new level is learnt before anything is said again.
        self.learning.clear();
        self.up = Side::default();
        self.down = Side::default();
        Some(drift)
    }

    /// Level by the median, spread by the median of absolute deviations, so that single outliers in
    /// the warm-up do not widen it.
    fn learn(&mut self) {
        self.level = median(self.learning.clone());
        let away: Vec<f64> = self
            .learning
            .iter()
            .map(|value| (value - self.level).abs())
            .collect();
        // 1.4826 makes it the standard deviation of a Gaussian.
        self.spread = (1.4826 * median(away)).max(self.settings.least_spread);
    }
}
