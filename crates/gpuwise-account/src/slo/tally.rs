//! Good and bad events by the minute in which they happened, in whichever order they are told.

use super::{Alert, ErrorBudget, Objective, Rule};
use crate::period::{DAY, HOUR, Interval};
use gpuwise_units::{Fraction, Nanoseconds};
use std::collections::BTreeMap;

const MINUTE: u64 = 60_000_000_000;

/// Counts of events by minute; older than a day, by hour. Unlike a counter that is read it takes what is
/// late: an event counts in the window in which it happened, not in which it was heard of.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    pub objective: Objective,
    /// By the start of the minute or hour: good events, all events.
    counts: BTreeMap<Nanoseconds, (u64, u64)>,
    /// All that were ever told: good ones, all.
    total: (u64, u64),
    /// Before this, what is older than a day was joined to hours.
    joined: Nanoseconds,
}

impl Tally {
    pub const fn new(objective: Objective) -> Self {
        Self {
            objective,
            counts: BTreeMap::new(),
            total: (0, 0),
            joined: Nanoseconds(0),
        }
    }

    /// Adds events that happened at a moment, of which so many were good.
    pub fn add(&mut self, at: Nanoseconds, good: u64, all: u64) {
        if all == 0 {
            return;
        }
        let cell = if at < self.joined { HOUR } else { MINUTE };
        let place = Nanoseconds(at.0 / cell * cell);
        let sums = self.counts.entry(place).or_default();
        sums.0 = sums.0.saturating_add(good.min(all));
        sums.1 = sums.1.saturating_add(all);
        self.total.0 = self.total.0.saturating_add(good.min(all));
        self.total.1 = self.total.1.saturating_add(all);
        self.join(at);
    }

    /// Good events and all events that were ever told: counters that never fall.
    pub const fn total(&self) -> (u64, u64) {
        self.total
    }

    /// Joins minutes older than a day to hours, and forgets what no objective looks back to. Once an hour.
    fn join(&mut self, at: Nanoseconds) {
        let old = Nanoseconds(at.0.saturating_sub(DAY) / HOUR * HOUR);
        if old <= self.joined {
            return;
        }
        let recent = self.counts.split_off(&old);
        let keep =
            at.0.saturating_sub(self.objective.over.0.saturating_add(HOUR));
        let mut hours: BTreeMap<Nanoseconds, (u64, u64)> = BTreeMap::new();
        for (place, (good, all)) in &self.counts {
            if place.0 < keep {
                continue;
            }
            let sums = hours.entry(Nanoseconds(place.0 / HOUR * HOUR)).or_default();
            sums.0 = sums.0.saturating_add(*good);
            sums.1 = sums.1.saturating_add(*all);
        }
        hours.extend(recent);
        self.counts = hours;
        self.joined = old;
    }

    /// The same with events that are bad already and not told yet, such as leases that wait longer than was promised:
    /// each is one that happens now, until what became of it is told.
    pub const fn with_late(&self, late: u64) -> CountedEvents<'_> {
        CountedEvents { tally: self, late }
    }

    /// Events from a moment on, up to another: bad ones, all.
    pub fn events(&self, within: Interval) -> (u64, u64) {
        let each = self.counts.range(within.start..=within.end);
        each.fold((0, 0), |(bad, all): (u64, u64), (_, (good, count))| {
            let more = count.saturating_sub(*good);
            (bad.saturating_add(more), all.saturating_add(*count))
        })
    }

    fn window(now: Nanoseconds, window: Nanoseconds) -> Interval {
        // The minute in which it begins counts whole.
        let start = now.0.saturating_sub(window.0) / MINUTE * MINUTE;
        Interval::new(Nanoseconds(start), now)
    }

    /// How many times faster than allowed errors came in a window; without events there is no error.
    pub fn burn_rate(&self, now: Nanoseconds, window: Nanoseconds) -> Fraction {
        self.with_late(0).burn_rate(now, window)
    }

    /// What is left of the error budget.
    pub fn error_budget(&self, now: Nanoseconds) -> ErrorBudget {
        self.with_late(0).error_budget(now)
    }

    /// Rules that are broken now.
    pub fn alerts(&self, now: Nanoseconds) -> Vec<Alert> {
        self.with_late(0).alerts(now)
    }
}

/// Events that were told, and those that are bad already and are told later.
#[derive(Debug, Clone, Copy)]
pub struct CountedEvents<'t> {
    tally: &'t Tally,
    late: u64,
}

impl CountedEvents<'_> {
    /// Events that are bad already and not told yet.
    pub const fn late(self) -> u64 {
        self.late
    }

    /// Good events and all events that were ever told.
    pub const fn told(self) -> (u64, u64) {
        self.tally.total
    }

    /// Good events and all events that there ever were: counters that never fall, as what is late stays bad once it is
    /// told.
    pub const fn total(self) -> (u64, u64) {
        let (good, all) = self.tally.total;
        (good, all.saturating_add(self.late))
    }

    /// Events from a moment on, up to now: bad ones, all.
    pub fn events(self, within: Interval) -> (u64, u64) {
        let (bad, all) = self.tally.events(within);
        (bad.saturating_add(self.late), all.saturating_add(self.late))
    }

    /// How many times faster than allowed errors came in a window that ends now; without events there is no error.
    pub fn burn_rate(self, now: Nanoseconds, window: Nanoseconds) -> Fraction {
        let (bad, all) = self.events(Tally::window(now, window));
        self.tally.objective.burn(bad, all)
    }

    /// What is left of the error budget.
    pub fn error_budget(self, now: Nanoseconds) -> ErrorBudget {
        let objective = self.tally.objective;
        let (bad, events) = self.events(Tally::window(now, objective.over));
        let spent = objective.burn(bad, events);
        ErrorBudget {
            events,
            bad,
            left: Fraction::ONE.minus(spent).unwrap_or(Fraction::ZERO),
        }
    }

    /// Rules that are broken now.
    pub fn alerts(self, now: Nanoseconds) -> Vec<Alert> {
        let burns = Rule::ALL.into_iter().map(|rule| Alert {
            rule,
            long: self.burn_rate(now, rule.long()),
            short: self.burn_rate(now, rule.short()),
        });
        burns.filter(Alert::is_broken).collect()
    }
}
