//! Our controller: serve what is there, keep warm what may come.
//!
//! What serves follows what arrives now, within the time that a warm replica takes to wake; what is warm beside it
//! covers a quantile of the highest demand until a replica could be started from nothing. That quantile is moved by
//! what is left of the error budget: where more requests were late than the SLO allows, more is kept.

use super::{Controller, Observed, Wanted};
use crate::forecast::{Forecaster, Settings};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What it goes by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Between two decisions.
    pub period: Nanoseconds,
    /// Requests a second that a replica serves.
    pub rate: f64,
    /// Share of requests that are to be in time.
    pub objective: f64,
    /// From nothing until a replica serves, and from warm.
    pub start: Nanoseconds,
    pub wake: Nanoseconds,
    /// Seconds that a request may wait.
    pub wait: f64,
    /// How long fewer must be enough before there are fewer.
    pub hold: Nanoseconds,
    /// Whether replicas can be warm.
    pub warms: bool,
    /// What a warm replica costs beside one that serves.
    pub warm_cost: f64,
    pub far: u64,
    pub band: f64,
    pub extra: f64,
    pub keep: f64,
    pub level: f64,
    pub margin: f64,
}

/// Between two readings of the forecast.
const READING: u64 = 60_000_000_000;
const SLOWLY: u64 = 60_000_000_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpuwise {
    rules: Rules,
    forecaster: Forecaster,
    farther: Forecaster,
    open_far: (Nanoseconds, f64),
    /// Arrivals of the reading that is open, and when it began.
    open: (Nanoseconds, f64),
    /// Arrivals of the last decisions.
    recent: VecDeque<f64>,
    /// What was wanted lately: the highest holds.
    lately: VecDeque<(Nanoseconds, u32)>,
    lately_total: VecDeque<(Nanoseconds, u32)>,
    /// How much is left of a replica's rate for what cannot be foreseen, and at which level demand is covered.
    margin: f64,
    level: f64,
    /// Requests and late ones at the last correction.
    judged: (f64, f64),
    /// Variance of arrivals over their mean.
    dispersion: f64,
}

impl Gpuwise {
    pub fn new(rules: Rules) -> Self {
        let ahead = |time: u64| (time / READING).max(1) as u32;
        let _ = ahead;
        let horizons = vec![1];
        let far = rules.far * 1_000_000_000;
        let farther = Forecaster::new(Settings { period: Nanoseconds(far), horizons: vec![((rules.start.0 + READING).div_ceil(far)) as u32] });
        let settings = Settings { period: Nanoseconds(READING), horizons };
        Self {
            forecaster: Forecaster::new(settings),
            farther,
            open_far: (Nanoseconds(0), 0.0),
            open: (Nanoseconds(0), 0.0),
            recent: VecDeque::new(),
            lately: VecDeque::new(),
            lately_total: VecDeque::new(),
            margin: rules.margin,
            level: rules.level,
            judged: (0.0, 0.0),
            dispersion: 1.0,
            rules,
        }
    }

    /// Notes what arrived, and tells the forecaster when a reading is over.
    fn take(&mut self, seen: &Observed, arrived: f64) {
        self.recent.push_back(arrived);
        let most = (READING / self.rules.period.0.max(1)).max(1) as usize;
        if self.recent.len() > most {
            self.recent.pop_front();
        }
        self.open.1 += arrived;
        self.open_far.1 += arrived;
        let span = seen.now.0.saturating_sub(self.open_far.0.0);
        if span >= self.rules.far * 1_000_000_000 {
            self.farther.observe(Some(self.open_far.1 / (span as f64 / 1e9)));
            self.open_far = (seen.now, 0.0);
        }
        let span = seen.now.0.saturating_sub(self.open.0.0);
        if span >= READING {
            self.forecaster.observe(Some(self.open.1 / (span as f64 / 1e9)));
            self.open = (seen.now, 0.0);
            let count = self.recent.len() as f64;
            let mean = self.recent.iter().sum::<f64>() / count;
            let trend = |at: usize| mean + 0.0 * at as f64;
            let variance = self.recent.iter().enumerate().map(|(at, one)| (one - trend(at)).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
            if mean > 0.0 {
                self.dispersion += 0.05 * (variance / mean - self.dispersion);
            }
        }
    }

    /// What was late beyond what may be raises margin and level, what was not lowers them slowly.
    fn correct(&mut self, seen: &Observed) {
        let (requests, late) = (seen.requests - self.judged.0, seen.late - self.judged.1);
        if requests <= 0.0 {
            return;
        }
        self.judged = (seen.requests, seen.late);
        let allowed = 1.0 - self.rules.objective;
        let over = late / requests - allowed;
        // Against what is used of the budget in all, so that it is spent, not saved.
        let spent = seen.late / (allowed * seen.requests).max(1.0);
        let _ = over;
        let _ = spent;
    }

    fn highest(list: &mut VecDeque<(Nanoseconds, u32)>, now: Nanoseconds, hold: Nanoseconds, one: u32) -> u32 {
        list.push_back((now, one));
        while let Some((at, _)) = list.front()
            && at.0 + hold.0 < now.0
        {
            list.pop_front();
        }
        list.iter().map(|(_, one)| *one).max().unwrap_or(one)
    }
}

impl Controller for Gpuwise {
    fn period(&self) -> Nanoseconds {
        self.rules.period
    }

    fn decide(&mut self, seen: &Observed) -> Wanted {
        let Some(arrived) = seen.arrived else {
            return Wanted { replicas: seen.ready + seen.starting, warm: seen.warm };
        };
        self.take(seen, arrived);
        self.correct(seen);
        let period = self.rules.period.seconds().get();
        let over = |span: f64| {
            let count = ((span / period).ceil().max(1.0) as usize).min(self.recent.len()).max(1);
            self.recent.iter().rev().take(count).sum::<f64>() / (count as f64 * period)
        };
        let forecasts = self.forecaster.forecasts();
        // What arrives now, and where it goes until the next decision has acted.
        let minute = over(60.0);
        let ahead = forecasts.first().map_or(minute, |one| one.point);
        let now = minute.max(ahead);
        // Room so that queues that come of chance stay below the wait: their tail falls as
        // exp(-2 room wait / dispersion).
        let allowed = (1.0 - self.rules.objective).max(1e-6);
        let room = self.margin * self.dispersion.max(1.0) * libm::log(1.0 / allowed) / (2.0 * self.rules.wait);
        let waits = seen.queued / (f64::from(seen.ready.max(1)) * self.rules.rate);
        let backlog = if waits > self.rules.wait * 0.25 { seen.queued / period } else { 0.0 };
        let needs = (now + room + backlog) / self.rules.rate;
        let active = (needs - 1e-9).ceil().max(1.0) as u32;
        let covered = self.farther.forecasts().last().map_or(now, |one| one.highest_at(self.level));
        let total = ((covered + room) / self.rules.rate - 1e-9).ceil().max(1.0) as u32;
        let total = total.max(active);
        let serving = seen.ready + seen.starting;
        // Chance alone changes nothing.
        let steady = if needs <= f64::from(serving) && needs > f64::from(serving) - self.rules.band { serving.max(1) } else { (needs + self.rules.extra).ceil().max(1.0) as u32 };
        let replicas = if self.rules.warms { steady } else { total };
        let replicas = Self::highest(&mut self.lately, seen.now, self.rules.hold, replicas);
        // A spare is let go once holding it has cost as much as starting it anew would.
        let hold = if self.rules.warms { Nanoseconds((self.rules.keep * self.rules.start.0 as f64 / self.rules.warm_cost) as u64) } else { self.rules.hold };
        let total = Self::highest(&mut self.lately_total, seen.now, hold, total).max(replicas);
        let warm = if self.rules.warms { total - replicas } else { 0 };
        Wanted { replicas, warm }
    }
}
