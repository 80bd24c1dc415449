//! Demand some minutes ahead, as quantiles.
//!
//! A [`Forecaster`] is told one reading a period and keeps what it needs of the past: a week at most. Several simple
//! experts say what comes (the last value, means, a damped trend, the same time of other days, a regression, and where
//! it is known whose requests come the largest clients one by one: [`ByClient`]); each weighs by how wrong it was lately, and where all of them together were worse than the last value, that is said
//! instead. Ranges come from how wrong it was, scaled by how much it errs now, at levels that are corrected until
//! as many readings fall inside as were promised (adaptive conformal inference: Gibbs and Candès, 2021,
//! arXiv:2106.00170).

mod clients;
mod conformal;
mod experts;
mod history;
mod outage;
mod regression;
mod report;
mod target;

pub mod backtest;
pub mod series;

pub use clients::{APART, ByClient};
pub use experts::{EXPERTS, Expert};
pub use report::{Clients, report};

use experts::Experts;
use gpuwise_units::Nanoseconds;
use outage::{Outage, Seen};
use serde::{Deserialize, Serialize};
use target::Target;

/// Quantiles that are forecast.
pub const LEVELS: [f64; 7] = [0.05, 0.10, 0.50, 0.75, 0.90, 0.95, 0.99];

/// What is forecast, and how often it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Between two readings.
    pub period: Nanoseconds,
    /// How far ahead, in periods.
    pub horizons: Vec<u32>,
}

/// Learns a series while it is told, and says what comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecaster {
    settings: Settings,
    experts: Experts,
    outage: Outage,
    /// For each horizon the value then, and the highest until then.
    targets: Vec<(Target, Target)>,
    readings: u64,
    missing: u64,
}

/// What is expected at a horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Periods ahead.
    pub horizon: u32,
    /// The value then.
    pub point: f64,
    /// Its quantiles at [`LEVELS`].
    pub quantiles: [f64; LEVELS.len()],
    /// Quantiles of the highest value from the next period to then.
    pub highest: [f64; LEVELS.len()],
    /// How much each expert counts, in their order.
    pub weights: [f64; EXPERTS],
    /// Whether the last value is said because the experts were worse lately.
    pub gated: bool,
}

impl Forecast {
    /// A quantile of the value then: at the next level of [`LEVELS`] that is no lower.
    pub fn at(&self, level: f64) -> f64 {
        at(&self.quantiles, level)
    }

    /// A quantile of the highest value until then.
    pub fn highest_at(&self, level: f64) -> f64 {
        at(&self.highest, level)
    }
}

fn at(quantiles: &[f64; LEVELS.len()], level: f64) -> f64 {
    let pairs = LEVELS.iter().zip(quantiles);
    let found = pairs.into_iter().find(|(one, _)| **one >= level - 1e-9);
    found.map_or(quantiles[LEVELS.len() - 1], |(_, value)| *value)
}

impl Forecaster {
    pub fn new(settings: Settings) -> Self {
        let farthest = settings.horizons.iter().copied().max().unwrap_or(1);
        let targets = settings.horizons.iter().map(|horizon| {
            let horizon = (*horizon).max(1);
            (Target::at(horizon), Target::highest(horizon))
        });
        Self {
            experts: Experts::new(settings.period, farthest),
            outage: Outage::default(),
            targets: targets.collect(),
            readings: 0,
            missing: 0,
            settings,
        }
    }

    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Readings that were told, and those of them that said nothing: absent, negative, or no number.
    pub const fn readings(&self) -> (u64, u64) {
        (self.readings, self.missing)
    }

    /// Whether demand has gone from one reading to the next, as if it could not be seen or not get here.
    pub const fn is_outage(&self) -> bool {
        self.outage.is_on()
    }

    /// The reading of a period; `None`: there is none. What is negative or no number counts as none.
    pub fn observe(&mut self, reading: Option<f64>) {
        self.observe_beside(reading, &[]);
    }

    /// The same, with what others say of each horizon.
    fn observe_beside(&mut self, reading: Option<f64>, clients: &[f64]) {
        self.readings += 1;
        let reading = reading.filter(|value| value.is_finite() && *value >= 0.0);
        if reading.is_none() {
            self.missing += 1;
        }
        let seen = self.outage.see(reading, self.experts.level());
        match seen {
            Seen::Demand(value) => {
                for (at, highest) in &mut self.targets {
                    at.score(Some(value));
                    highest.score(Some(value));
                }
                self.experts.learn(value);
                let broke = self.targets.first().is_some_and(|(at, _)| at.broke());
                if broke {
                    self.experts.forget();
                }
            }
            // Nothing is learned of it, and what was said of it is not held against anybody.
            Seen::Nothing => {
                for (at, highest) in &mut self.targets {
                    at.score(None);
                    highest.score(None);
                }
                self.experts.skip();
            }
        }
        let counts = !self.outage.is_on();
        for (index, (at, highest)) in self.targets.iter_mut().enumerate() {
            let clients = clients.get(index).copied();
            let said = self.experts.say(at.horizon(), at.regression(), clients);
            at.say(said, self.experts.level(), counts);
            highest.say(said, self.experts.level(), counts);
        }
    }

    /// What is expected at each horizon; nothing before the first reading.
    pub fn forecasts(&self) -> Vec<Forecast> {
        let targets = self.targets.iter();
        targets
            .filter_map(|(at, highest)| {
                let said = at.said()?;
                let most = highest.said()?;
                let back = |quantiles| self.outage.until_back(at.horizon(), quantiles);
                // The highest until then is no less than what is then.
                let mut highest = back(most.quantiles);
                for (one, then) in highest.iter_mut().zip(back(said.quantiles)) {
                    *one = one.max(then);
                }
                Some(Forecast {
                    horizon: at.horizon(),
                    point: self.outage.still_gone().unwrap_or(said.point),
                    quantiles: back(said.quantiles),
                    highest,
                    weights: said.weights,
                    gated: said.gated,
                })
            })
            .collect()
    }
}
