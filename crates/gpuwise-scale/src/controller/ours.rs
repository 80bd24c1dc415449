//! Our controller: serve what is there, keep warm what may come.
//!
//! What serves follows what arrives now, within the time that a warm replica takes to wake. What is warm beside it
//! covers the highest demand until a replica could be started from nothing; how far beyond what is expected that
//! reaches follows what is used of the error budget. Where nothing can be warm, all of it serves.

use super::{
    Because, Controller, Decision, Observed, Rules, Wanted,
    demand::Arrivals,
    highest::Highest,
    spares::{Cover, Covered},
};
use crate::cold::{ColdStart, Level};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// Fewer replicas are taken away only where so large a share, and so many standard deviations of the rate, are too
/// many; half of that is to spare wherever their number changes.
const BAND: f64 = 0.07;
const DEVIATIONS: f64 = 1.5;
const AHEAD: f64 = 0.5;
/// A part of a replica is no replica; of many small ones such a share of all is what a part is of few.
const GRAIN: f64 = 0.03;
/// Fewer must be enough for so long before there are fewer.
const HOLD: Nanoseconds = Nanoseconds(120_000_000_000);
/// Room against queues that come of chance, of what their tail asks for.
const ROOM: f64 = 0.15;
/// For an objective of 99 % a queue counts once it takes so much of what a request may wait, and half of it as
/// replicas: the rest drains on what is to spare. With every ten times fewer that may be late, half and twice that.
const QUEUED: f64 = 0.5;
const BACKLOG: f64 = 0.5;
const USUAL: f64 = 0.01;
/// After so many start-ups without one that got ready no more are started.
const TOO_LONG: u64 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpuwise {
    rules: Rules,
    arrivals: Arrivals,
    cover: Cover,
    serving: Highest,
    all: Highest,
    /// How long a start takes.
    cold: ColdStart,
    /// The same, nine times of ten.
    start: Nanoseconds,
    /// Since when replicas start without one that got ready, and how many were ready then.
    waiting: Option<(Nanoseconds, u32)>,
    /// When a request last came.
    last: Nanoseconds,
    /// When it was last asked.
    asked: Option<Nanoseconds>,
    /// How many were to serve then: what is beyond them is on its way out.
    wanted: Option<u32>,
}

impl Gpuwise {
    pub fn new(rules: Rules) -> Self {
        Self {
            arrivals: Arrivals::new(rules.period),
            cover: Cover::new(&rules),
            serving: Highest::default(),
            all: Highest::default(),
            cold: ColdStart::of_p90(rules.start),
            start: rules.start,
            waiting: None,
            last: Nanoseconds(0),
            asked: None,
            wanted: None,
            rules,
        }
    }

    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Requests of a period: who is asked late is told of a longer time, which is no burst.
    fn of_period(&mut self, now: Nanoseconds, arrived: f64) -> f64 {
        let period = self.rules.period.0;
        let before = self.asked.replace(now);
        let spent = before.map_or(period, |before| now.0.saturating_sub(before.0));
        arrived * period as f64 / spent.max(period) as f64
    }

    fn learn_start(&mut self, took: Option<Nanoseconds>) {
        if let Some(took) = took {
            self.cold.learn(took);
            self.start = self.cold.at(Level::P90);
        }
    }

    /// Whether replicas have been starting for so long that starting more would not help.
    fn stuck(&mut self, seen: &Observed) -> bool {
        if seen.starting == 0 {
            self.waiting = None;
            return false;
        }
        let (since, ready) = *self.waiting.get_or_insert((seen.now, seen.ready));
        if seen.ready > ready {
            self.waiting = Some((seen.now, seen.ready));
            return false;
        }
        seen.now.0.saturating_sub(since.0) > TOO_LONG * self.start.0
    }

    /// Replicas that serve what arrives now, as a number that need not be whole, and whether a queue is part of it.
    fn needs(&self, seen: &Observed, demand: f64) -> (f64, bool) {
        let rate = self.rules.rate;
        let wait = self.rules.wait.seconds().get();
        // The tail of queues that come of chance falls as exp(-2 room wait / dispersion).
        let tail = libm::log(1.0 / (1.0 - self.rules.objective));
        let room = ROOM * self.arrivals.dispersion() * tail / (2.0 * wait);
        let room = if demand > 0.0 { room } else { 0.0 };
        let waits = seen.queued / (f64::from(seen.ready.max(1)) * rate);
        let drains = if seen.warm > 0 {
            self.rules.period
        } else {
            self.start
        };
        let decades = libm::log10(USUAL / (1.0 - self.rules.objective));
        let eager = libm::exp2(decades.max(0.0));
        let queued = waits > QUEUED / eager * wait;
        // A queue is worth as many replicas again as demand is, no more: it will be gone before others have started.
        // Of a few it may be one whole replica all the same.
        let drained = seen.queued / drains.seconds().get();
        let some = (BACKLOG * eager).min(1.0) * drained.min(demand.max(rate));
        let backlog = if queued {
            some.max(drained.min(rate))
        } else {
            0.0
        };
        ((demand + room + backlog) / rate, queued)
    }

    /// What is to serve, for as much as is needed now; where nothing can be warm, all that is covered.
    fn sought(&self, needs: f64, demand: f64, cover: &Covered, idle: bool) -> Sought {
        let rate = self.rules.rate;
        let band = self.band(needs * rate, demand) / rate;
        // As long as requests come, one serves.
        let least = u32::from(!idle);
        let now = Sought {
            least,
            enough: needs.max(f64::from(least)),
            goal: needs + AHEAD * band,
            band,
            hold: HOLD,
        };
        if self.rules.warm_cost.is_some() {
            return now;
        }
        Sought {
            enough: now.enough.max(cover.some / rate),
            goal: now.goal.max(cover.all / rate),
            hold: self.keeps(1.0),
            ..now
        }
    }

    /// Chance alone changes nothing: what serves stays while it is enough and was hardly too many for a while.
    fn steady(
        &mut self,
        now: Nanoseconds,
        serving: u32,
        sought: &Sought,
        queued: bool,
    ) -> (u32, Because) {
        let parts = (sought.goal * PARTS).ceil() as u32;
        let held = f64::from(self.serving.of(now, sought.hold, parts)) / PARTS;
        let because = if queued {
            Because::Queue
        } else {
            Because::Demand
        };
        if sought.enough > f64::from(serving) {
            return (whole(sought.goal).max(sought.least).max(serving), because);
        }
        // Fewer at once, and not again and again: by what is left of the band at least.
        let there = f64::from(serving);
        let grain = (GRAIN * there).max(1.0);
        let fewer = |to: f64| to + (1.0 - AHEAD) * sought.band <= there - grain;
        let to = whole(held).max(sought.least);
        if to < serving && fewer(held) {
            (to, because)
        } else if fewer(sought.goal) && whole(sought.goal).max(sought.least) < serving {
            (serving, Because::Hold)
        } else {
            (serving, Because::Band)
        }
    }

    /// How far what is there may be from so many requests a second that are needed before anything changes.
    pub(crate) fn band(&self, needs: f64, demand: f64) -> f64 {
        BAND * needs + DEVIATIONS * self.arrivals.deviation_of_minute(demand)
    }

    fn bounded(&self, wanted: u32, because: Because) -> (u32, Because) {
        if wanted > self.rules.max {
            (self.rules.max, Because::Max)
        } else if wanted < self.rules.min {
            (self.rules.min, Because::Min)
        } else {
            (wanted, because)
        }
    }

    /// How long a spare is kept that is not needed: until holding it has cost as much as starting it anew would.
    fn keeps(&self, cost: f64) -> Nanoseconds {
        Nanoseconds((self.start.0 as f64 / cost.max(0.01)) as u64)
    }
}

impl Gpuwise {
    /// How long starts take is known from elsewhere: from starts of the same model on the same class of nodes.
    pub fn know_start(&mut self, cold: &ColdStart) {
        self.cold = *cold;
        self.start = cold.at(Level::P90);
    }

    /// The same by other rules: what was learned of demand stays, as far as these say the same of how it is looked at.
    #[must_use]
    pub fn under(self, rules: Rules) -> Self {
        let mut new = Self::new(rules);
        let (before, now) = (&self.rules, &new.rules);
        if before.period == now.period {
            new.arrivals = self.arrivals;
        }
        if (before.rate - now.rate).abs() < f64::EPSILON {
            new.serving = self.serving;
            new.all = self.all;
        }
        if before.start == now.start {
            new.cold = self.cold;
            new.start = self.start;
        }
        let promised = (before.objective - now.objective).abs() < f64::EPSILON;
        new.cover = self.cover.under(new.cover, promised);
        new.waiting = self.waiting;
        new.last = self.last;
        new.asked = self.asked;
        new.wanted = self.wanted;
        new
    }
}

/// Parts of a replica in which what was wanted is remembered.
const PARTS: f64 = 1024.0;

/// How many replicas are to serve, and parts of them.
struct Sought {
    /// None where nothing comes, else one.
    least: u32,
    /// Fewer are too few.
    enough: f64,
    /// As many are gone to where there are too few, or too many.
    goal: f64,
    /// How many too many change nothing.
    band: f64,
    /// For how long as many must have been too many.
    hold: Nanoseconds,
}

/// Replicas, none of them in part.
fn whole(needs: f64) -> u32 {
    (needs - 1e-9).ceil().max(0.0) as u32
}

impl Controller for Gpuwise {
    fn period(&self) -> Nanoseconds {
        self.rules.period
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        self.learn_start(seen.started);
        let serving = seen.ready + seen.starting;
        let arrived = seen.arrived.filter(|one| one.is_finite() && *one >= 0.0);
        let Some(arrived) = arrived else {
            self.asked = Some(seen.now);
            self.cover.take(seen.now, None, 0.0);
            self.wanted = None;
            let wanted = Wanted {
                replicas: serving,
                warm: seen.warm + seen.warming,
            };
            return Decision {
                because: Because::NoMetrics,
                ..Decision::from(wanted)
            };
        };
        let of_period = self.of_period(seen.now, arrived);
        self.arrivals.take(of_period);
        let minute = self.arrivals.minute();
        self.cover.take(seen.now, Some(arrived), minute);
        self.cover
            .correct(&self.rules, seen.requests, seen.late, seen.warm > 0);
        if arrived > 0.0 || seen.queued > 0.0 {
            self.last = seen.now;
        }
        let demand = self.arrivals.now();
        let (needs, queued) = self.needs(seen, demand);
        let cover = self.cover.demand(self.start, demand);
        let total = whole(cover.all.max(demand) / self.rules.rate).max(whole(needs));
        let idle = seen.now.0.saturating_sub(self.last.0) >= self.rules.idle.0;
        let (held, because) = if self.rules.min == 0 && idle {
            // For how long nothing must have come is the policy's to say.
            self.serving = Highest::default();
            (0, Because::Idle)
        } else {
            let sought = self.sought(needs, demand, &cover, idle);
            let serving = self.wanted.map_or(serving, |wanted| wanted.min(serving));
            self.steady(seen.now, serving, &sought, queued)
        };
        let (held, because) = self.bounded(held, because);
        let (held, because) = if held > serving && self.stuck(seen) {
            (serving.max(self.rules.min), Because::NotReady)
        } else {
            (held, because)
        };
        self.wanted = Some(held);
        let warm = match self.rules.warm_cost {
            Some(cost) if because != Because::NotReady => {
                let all = self.all.of(seen.now, self.keeps(cost), total);
                all.min(self.rules.max).saturating_sub(held)
            }
            Some(_) => seen.warm + seen.warming,
            None => 0,
        };
        Decision {
            wanted: Wanted {
                replicas: held,
                warm,
            },
            because,
            demand,
            covered: cover.all.max(demand),
        }
    }
}
