//! Demand some minutes ahead. Data only.

use alloc::{string::String, vec::Vec};
use gpuwise_units::Nanoseconds;

/// A series, what is expected of it, and how good that would have been so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesForecast {
    pub name: String,
    /// Between two readings.
    pub period: Nanoseconds,
    /// Seconds at which it begins, from wherever its times count.
    pub start_seconds: f64,
    /// Requests a second, one a period; `None`: nothing is known of it.
    pub readings: Vec<Option<f64>>,
    /// Whether demand seems to have gone at once, as in an outage.
    pub outage: bool,
    pub horizons: Vec<HorizonForecast>,
    /// What was set right before, in words.
    pub notes: Vec<String>,
}

/// What is expected so far ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizonForecast {
    pub ahead: Nanoseconds,
    /// The same in periods.
    pub periods: u32,
    /// Requests a second then.
    pub point: f64,
    /// Quantiles of that, and of the highest rate until then.
    pub quantiles: Vec<LevelValue>,
    pub highest: Vec<LevelValue>,
    /// Who says it, whoever counts most first, each with its weight.
    pub experts: Vec<(&'static str, f64)>,
    /// Whether the last value is said because it was better lately.
    pub gated: bool,
    /// `None`: too few readings to tell.
    pub judged: Option<Backtest>,
    /// What was said so far ahead of each reading: the point, and the 10 % and 90 % quantiles.
    pub said: Vec<Option<(f64, f64, f64)>>,
}

/// A quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelValue {
    /// From 0 to 1.
    pub level: f64,
    pub value: f64,
}

/// How forecasts made from the past alone did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backtest {
    /// Readings that they were held against.
    pub readings: u64,
    /// Weighted absolute percentage error: absolute errors over readings; ours, that of the last value, and that of
    /// the same time of the day before.
    pub wape: f64,
    pub wape_last: f64,
    pub wape_day: Option<f64>,
    /// Share of readings below the 90 % quantile, and of highest rates below theirs.
    pub covered: f64,
    pub covered_highest: f64,
}

impl SeriesForecast {
    /// The last rate that is known.
    pub fn last(&self) -> Option<f64> {
        self.readings.iter().rev().find_map(|reading| *reading)
    }

    /// Readings of which nothing is known.
    pub fn missing(&self) -> usize {
        self.readings
            .iter()
            .filter(|reading| reading.is_none())
            .count()
    }
}

impl HorizonForecast {
    /// A quantile of the rate then.
    pub fn at(&self, level: f64) -> Option<f64> {
        of(&self.quantiles, level)
    }

    /// A quantile of the highest rate until then.
    pub fn highest_at(&self, level: f64) -> Option<f64> {
        of(&self.highest, level)
    }
}

fn of(quantiles: &[LevelValue], level: f64) -> Option<f64> {
    let found = quantiles
        .iter()
        .find(|one| (one.level - level).abs() < 1e-9);
    found.map(|one| one.value)
}
