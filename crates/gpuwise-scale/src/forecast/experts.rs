//! Those who say what comes.

use super::{
    history::History,
    regression::{Features, Regression},
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

gpuwise_units::named! {
    /// Who says what comes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Expert: name {
        /// As it is now.
        Last = "last value",
        Fast = "mean of some readings",
        Slow = "mean of an hour",
        /// Holt's linear trend, damped.
        Trend = "damped trend",
        /// As it went at this time of the days before.
        Day = "same time of day",
        Week = "same time of week",
        Lags = "regression on lags",
        /// The largest clients one by one and the rest together, where it is told whose requests come.
        Clients = "clients apart",
    }
}

/// How many there are.
pub const EXPERTS: usize = Expert::ALL.len();

/// Shares of a new reading in means and trend.
const FAST: f64 = 0.5;
const SLOW: f64 = 0.15;
/// Of a new reading in what is usual: a day's worth of ten minutes.
const USUAL: f64 = 0.007;
/// The least that things are measured by, in shares of what is usual: nothing is divided by an outage.
const FLOOR: f64 = 0.05;
const LEVEL: f64 = 0.6;
const TREND: f64 = 0.15;
/// What is left of a trend after a period.
const DAMPED: f64 = 0.8;
/// How far the way of other days may carry.
const FARTHEST: f64 = 2.5;
/// Days that are looked at, the last one counting most.
const DAYS: usize = 3;

const DAY: u64 = 86_400_000_000_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Experts {
    history: History,
    /// Periods of a day, where a day is a whole number of them.
    day: Option<usize>,
    fast: f64,
    slow: f64,
    usual: f64,
    level: f64,
    trend: f64,
    /// Periods since what came before does not count any more.
    since: usize,
}

impl Experts {
    pub(super) fn new(period: Nanoseconds, farthest: u32) -> Self {
        let whole = period.0 > 0 && DAY.is_multiple_of(period.0);
        let day = whole.then(|| (DAY / period.0) as usize);
        // A week, to the neighbours of its ends.
        let most = day.unwrap_or(0) * 7 + farthest as usize + 3;
        Self {
            history: History::new(most),
            day,
            fast: 0.0,
            slow: 0.0,
            usual: 0.0,
            level: 0.0,
            trend: 0.0,
            since: 0,
        }
    }

    /// About what it is.
    pub(super) const fn level(&self) -> f64 {
        self.slow.max(self.usual * FLOOR)
    }

    pub(super) fn learn(&mut self, value: f64) {
        let first = self.since == 0;
        let mean = |old: f64, share: f64| {
            if first {
                value
            } else {
                old + share * (value - old)
            }
        };
        (self.fast, self.slow) = (mean(self.fast, FAST), mean(self.slow, SLOW));
        self.usual = mean(self.usual, USUAL);
        let before = self.level;
        let ahead = before + DAMPED * self.trend;
        self.level = if first {
            value
        } else {
            ahead + LEVEL * (value - ahead)
        };
        self.trend = if first {
            0.0
        } else {
            DAMPED * self.trend + TREND * (self.level - before - DAMPED * self.trend)
        };
        self.history.push(value);
        self.since += 1;
    }

    /// A period of which nothing is known: as before, so that days stay days.
    pub(super) fn skip(&mut self) {
        if self.history.len() == 0 {
            return;
        }
        let day = self.day.and_then(|day| self.history.back(day - 1));
        let usual = day.filter(|_| self.history.len() > DAYS);
        let last = self.history.back(0).unwrap_or(0.0);
        self.history.push(usual.unwrap_or(last));
    }

    /// What came before says little of what comes: means and trend begin anew.
    pub(super) fn forget(&mut self) {
        let last = self.history.back(0).unwrap_or(0.0);
        (self.fast, self.slow, self.level, self.trend) = (last, last, last, 0.0);
    }

    /// The way of other days from this time to so many periods later, on what is now.
    fn season(&self, length: usize, times: usize, horizon: usize) -> Option<f64> {
        let now = self.history.back(0)?;
        let (mut sum, mut all, mut weight) = (0.0, 0.0, 1.0);
        for time in 1..=times {
            let ago = length * time;
            let ahead = ago.checked_sub(horizon)?;
            // With its neighbours: what is one reading alone says little of another day.
            let around = |ago: usize| -> Option<f64> {
                let before = self.history.back(ago + 1)?;
                let after = ago
                    .checked_sub(1)
                    .map_or(self.history.back(ago), |ago| self.history.back(ago));
                Some((before + 2.0 * self.history.back(ago)? + after?) / 4.0)
            };
            let Some((then, later)) = around(ago).zip(around(ahead)) else {
                break;
            };
            if then > 0.0 {
                sum += weight * (later / then).clamp(1.0 / FARTHEST, FARTHEST);
                all += weight;
            }
            weight *= 0.6;
        }
        (all > 0.0).then(|| now * sum / all)
    }

    /// What each says of so many periods ahead; who has nothing to say says the last value. `clients`: what clients
    /// one by one come to.
    pub(super) fn say(
        &self,
        horizon: u32,
        regression: Option<&Regression>,
        clients: Option<f64>,
    ) -> Said {
        let ahead = horizon as usize;
        let last = self.history.back(0).unwrap_or(0.0);
        let mut damped = 0.0;
        let mut factor = 1.0;
        for _ in 0..ahead {
            factor *= DAMPED;
            damped += factor;
        }
        let day = self.day.and_then(|day| self.season(day, DAYS, ahead));
        let week = self.day.and_then(|day| self.season(day * 7, 1, ahead));
        let features = self.features(last, day, week);
        let scale = self.level().max(last).max(f64::MIN_POSITIVE);
        let lags = last + scale * regression.map_or(0.0, |known| known.say(&features));
        let mut all = [0.0; EXPERTS];
        for (to, expert) in all.iter_mut().zip(Expert::ALL) {
            let said = match expert {
                Expert::Last => last,
                Expert::Fast => self.fast,
                Expert::Slow => self.slow,
                Expert::Trend => self.level + damped * self.trend,
                Expert::Day => day.unwrap_or(last),
                Expert::Week => week.unwrap_or(last),
                Expert::Lags => lags,
                Expert::Clients => clients.unwrap_or(last),
            };
            *to = said.max(0.0);
        }
        Said {
            all,
            apart: clients.is_some(),
            features,
            last,
            scale,
        }
    }

    fn features(&self, last: f64, day: Option<f64>, week: Option<f64>) -> Features {
        let scale = self.level().max(last).max(f64::MIN_POSITIVE);
        let back = |ago| self.history.back(ago).unwrap_or(last);
        let by = |other: f64| ((other - last) / scale).clamp(-1.0, 1.0);
        [
            by(back(1)),
            by(back(2)),
            by(back(5)),
            by(self.slow),
            by(day.unwrap_or(last)),
            by(week.unwrap_or(last)),
        ]
    }
}

/// What the experts say, and what a regression went by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) all: [f64; EXPERTS],
    /// Whether clients were forecast one by one.
    pub(super) apart: bool,
    pub(super) features: Features,
    pub(super) last: f64,
    pub(super) scale: f64,
}
