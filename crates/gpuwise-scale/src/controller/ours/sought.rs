//! How many replicas what comes needs, and when their number changes.

use super::Gpuwise;
use crate::controller::{Because, CROWDED, Observed, spares::Covered};
use gpuwise_units::Nanoseconds;

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

/// Parts of a replica in which what was wanted is remembered.
const PARTS: f64 = 1024.0;

/// How many replicas are to serve, and parts of them.
pub(super) struct Sought {
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
pub(super) fn whole(needs: f64) -> u32 {
    (needs - 1e-9).ceil().max(0.0) as u32
}

/// Requests that wait; where the cache is as good as full, those that run beyond it wait too.
fn waiting(seen: &Observed) -> f64 {
    let beyond = seen
        .cache
        .filter(|used| *used > CROWDED && used.is_finite());
    let crowd = beyond.map_or(0.0, |used| seen.running * (1.0 - CROWDED / used));
    seen.queued + crowd
}

impl Gpuwise {
    /// Replicas that serve what arrives now, as a number that need not be whole, and whether a queue is part of it.
    pub(super) fn needs(&self, seen: &Observed, demand: f64) -> (f64, bool) {
        let rate = self.rules.rate;
        let wait = self.rules.wait.seconds().get();
        // The tail of queues that come of chance falls as exp(-2 room wait / dispersion).
        let tail = libm::log(1.0 / (1.0 - self.rules.objective));
        let room = ROOM * self.busier().dispersion() * tail / (2.0 * wait);
        let room = if demand > 0.0 { room } else { 0.0 };
        let queue = waiting(seen);
        let waits = queue / (f64::from(seen.ready.max(1)) * rate);
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
        let drained = queue / drains.seconds().get();
        let some = (BACKLOG * eager).min(1.0) * drained.min(demand.max(rate));
        let backlog = if queued {
            some.max(drained.min(rate))
        } else {
            0.0
        };
        ((demand + room + backlog) / rate, queued)
    }

    /// What is to serve, for as much as is needed now; where nothing can be warm, all that is covered.
    pub(super) fn sought(&self, needs: f64, demand: f64, cover: &Covered, idle: bool) -> Sought {
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
    pub(super) fn steady(
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
        BAND * needs + DEVIATIONS * self.busier().deviation_of_minute(demand)
    }
}
