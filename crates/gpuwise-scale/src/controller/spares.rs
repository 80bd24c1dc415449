//! Demand that serving and warm replicas together cover: the highest until a replica could be started from nothing.

use super::Rules;
use crate::forecast::{Forecaster, Settings};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// A reading of the forecast is half a start long, and no shorter than a minute.
const READINGS_A_START: u64 = 2;
const SHORTEST: u64 = 60_000_000_000;
/// Starts may turn out so many times as long as was known.
const HORIZONS: [u32; 3] = [3, 7, 15];
/// A part of a reading that makes no other of it.
const HARDLY: u64 = 10;
/// The level that a range is stretched from.
const LEVEL: f64 = 0.99;
/// Of what may be late, the share that is aimed at.
const AIM: f64 = 0.4;
/// How quickly the stretch follows what was late, a day.
const GAIN: f64 = 0.15;
/// The furthest that one period moves its logarithm.
const FASTEST: f64 = 0.5;
/// The stretch at first: for an objective of 99 %, and more for every ten times fewer that may be late.
const STRETCH: f64 = 1.0;
const STRETCH_A_DECADE: f64 = 2.0;
/// What may be late at the objective that `STRETCH` is for.
const USUAL: f64 = 0.01;
const LEAST_STRETCH: f64 = 0.25;
const MOST_STRETCH: f64 = 4.0;
/// Nothing is covered beyond so many times the highest minute of the last days.
const BEYOND: f64 = 3.0;
const DAYS: usize = 7;
const DAY: u64 = 86_400_000_000_000;

/// Demand of which little is known may double within so many seconds; with hours it has shown what it does.
const DOUBLES: f64 = 360.0;
const UNKNOWN_HOURS: f64 = 4.0;
const HOUR: f64 = 3600.0e9;

/// The part of a range that is enough: where less is there, all of it is covered again.
const SOME: f64 = 0.7;

/// Requests a second that are to be covered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Covered {
    pub(super) all: f64,
    /// The least that changes nothing.
    pub(super) some: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Cover {
    forecaster: Forecaster,
    /// Arrivals of the reading that is open, and when it began; whether all of it was seen.
    open: (Nanoseconds, f64, bool),
    /// By how much the range between what is expected and its highest is stretched.
    stretch: f64,
    /// Requests and late ones when it was last corrected.
    judged: (f64, f64),
    /// Highest rates of the last days, and the day of the last.
    peaks: Vec<f64>,
    day: u64,
}

impl Cover {
    pub(super) fn new(rules: &Rules) -> Self {
        let period = Nanoseconds((rules.start.0 / READINGS_A_START).max(SHORTEST));
        let decades = libm::log10(USUAL / (1.0 - rules.objective));
        Self {
            forecaster: Forecaster::new(Settings {
                period,
                horizons: HORIZONS.to_vec(),
            }),
            open: (Nanoseconds(0), 0.0, true),
            stretch: (STRETCH + STRETCH_A_DECADE * decades).clamp(LEAST_STRETCH, MOST_STRETCH),
            judged: (0.0, 0.0),
            peaks: Vec::new(),
            day: 0,
        }
    }

    /// The same in place of one that is new: the forecast stays where its readings are as long, what was promised and
    /// not kept where the promise is the same, and the highest of the last days always.
    pub(super) fn under(self, new: Self, promised: bool) -> Self {
        let same = self.forecaster.settings() == new.forecaster.settings();
        let (forecaster, open) = if same {
            (self.forecaster, self.open)
        } else {
            // What came until now is of no reading of the new ones.
            (new.forecaster, (self.open.0, 0.0, false))
        };
        let stretch = if promised { self.stretch } else { new.stretch };
        Self {
            forecaster,
            open,
            stretch,
            ..self
        }
    }

    /// Notes what arrived until now; `None`: it is not known.
    pub(super) fn take(&mut self, now: Nanoseconds, arrived: Option<f64>, minute: f64) {
        match arrived {
            Some(arrived) => self.open.1 += arrived,
            None => self.open.2 = false,
        }
        let span = now.0.saturating_sub(self.open.0.0);
        if span >= self.forecaster.settings().period.0 {
            let rate = self.open.1 / (span as f64 / 1e9);
            self.forecaster.observe(self.open.2.then_some(rate));
            self.open = (now, 0.0, true);
        }
        let day = now.0 / DAY;
        if day > self.day || self.peaks.is_empty() {
            self.day = day;
            self.peaks.push(0.0);
            let old = self.peaks.len().saturating_sub(DAYS);
            self.peaks.drain(..old);
        }
        if let Some(peak) = self.peaks.last_mut() {
            *peak = peak.max(minute);
        }
    }

    /// Requests that were late while there was no spare stretch what is covered; what was not late lets it shrink.
    pub(super) fn correct(&mut self, rules: &Rules, requests: f64, late: f64, spares: bool) {
        let (came, lately) = (requests - self.judged.0, late - self.judged.1);
        // Counters that jump back begin anew.
        self.judged = (requests, late);
        if came <= 0.0 || lately < 0.0 {
            return;
        }
        let allowed = 1.0 - rules.objective;
        let used = if spares { 0.0 } else { lately / came / allowed };
        let days = rules.period.0 as f64 / DAY as f64;
        let moved = (GAIN * days * (used - AIM)).clamp(-FASTEST, FASTEST);
        self.stretch = (self.stretch * libm::exp(moved)).clamp(LEAST_STRETCH, MOST_STRETCH);
    }

    /// How far demand may rise beyond what is expected before anything is known of it: exponentially until one that
    /// is started at the next reading serves, and the less the longer it was looked at.
    fn unknown(&self, start: Nanoseconds, point: f64) -> f64 {
        let period = self.forecaster.settings().period;
        let horizon = start.seconds().get() + period.seconds().get();
        let hours = self.forecaster.readings().0 as f64 * period.0 as f64 / HOUR;
        point * (libm::exp2(horizon / DOUBLES) - 1.0) * libm::exp(-hours / UNKNOWN_HOURS)
    }

    /// Requests a second that are to be covered until one that is started now serves; `spares`: whether replicas can be
    /// warm, and cover what nobody has seen yet for little.
    pub(super) fn demand(&self, start: Nanoseconds, now: f64, spares: bool) -> Covered {
        let period = self.forecaster.settings().period.0;
        // A start that turns out hardly longer than was known needs no further forecast.
        let hardly = period - period / HARDLY;
        let needed = start.0.saturating_add(hardly).div_ceil(period.max(1));
        let forecasts = self.forecaster.forecasts();
        let far_enough = forecasts
            .iter()
            .find(|one| u64::from(one.horizon) >= needed);
        let Some(one) = far_enough.or(forecasts.last()) else {
            return Covered {
                all: now,
                some: now,
            };
        };
        let range = (one.highest_at(LEVEL) - one.point).max(0.0);
        let most = self.peaks.iter().copied().fold(now, f64::max) * BEYOND;
        let unknown = if spares {
            self.unknown(start, one.point)
        } else {
            0.0
        };
        let range = (self.stretch * range).max(unknown);
        let reaches = |part: f64| (one.point + part * range).min(most);
        Covered {
            all: reaches(1.0),
            some: reaches(SOME),
        }
    }
}
