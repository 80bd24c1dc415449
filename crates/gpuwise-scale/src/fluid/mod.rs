//! A service as a queue that flows: demand in, replicas that serve at a rate, replicas that take a while to start.
//!
//! Arrivals of a bin are counts of a negative binomial distribution around the rate, which goes straight from one
//! reading to the next; the queue is served first in, first out. A request is late when the queue before it takes
//! longer than the SLO allows.

mod arrivals;

pub use arrivals::{Demand, negative_binomial};

use crate::controller::{Controller, Observed, Wanted};
use gpuwise_units::{Nanoseconds, RandomStream};

/// What serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Requests a second that a replica serves.
    pub rate: f64,
    /// Seconds that a request runs.
    pub service: f64,
    /// Seconds that a request may wait.
    pub wait: f64,
    /// Seconds from nothing until a replica serves, and from warm.
    pub start: f64,
    pub wake: f64,
    /// Seconds from serving until a replica is warm, or gone.
    pub sleep: f64,
    /// What a warm replica costs beside one that serves.
    pub warm_cost: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// Seconds of a bin.
    pub bin: f64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    pub requests: f64,
    pub late: f64,
    /// Replica-seconds that served or started, and that were warm.
    pub busy: f64,
    pub warm: f64,
    /// What that costs, in seconds of a replica that serves.
    pub cost: f64,
    /// What replicas would have cost that follow the rate exactly.
    pub bound: f64,
    /// Times that the number of replicas was changed.
    pub changes: u32,
}

impl Outcome {
    pub fn kept(&self) -> f64 {
        1.0 - self.late / self.requests.max(1.0)
    }

    /// Cost over the bound.
    pub fn ratio(&self) -> f64 {
        self.cost / self.bound.max(f64::MIN_POSITIVE)
    }
}

/// Replicas of a service while it runs.
#[derive(Debug, Default)]
struct Replicas {
    ready: u32,
    warm: u32,
    /// Those that start, and when each serves.
    starting: Vec<(f64, u32)>,
    /// Those that fall asleep, and when they are warm.
    sleeping: Vec<(f64, u32)>,
}

impl Replicas {
    fn count(of: &[(f64, u32)]) -> u32 {
        of.iter().map(|(_, count)| count).sum()
    }

    fn pass(&mut self, now: f64) {
        let over = |list: &mut Vec<(f64, u32)>| -> u32 {
            let done = list.iter().filter(|(at, _)| *at <= now).map(|(_, count)| count).sum();
            list.retain(|(at, _)| *at > now);
            done
        };
        self.ready += over(&mut self.starting);
        self.warm += over(&mut self.sleeping);
    }

    /// Goes to what is wanted; whether anything changed.
    fn follow(&mut self, now: f64, wanted: Wanted, service: &Service) -> bool {
        let before = self.ready + Self::count(&self.starting);
        let mut short = wanted.replicas.saturating_sub(before);
        let woken = short.min(self.warm);
        if woken > 0 {
            self.warm -= woken;
            short -= woken;
            self.starting.push((now + service.wake, woken));
        }
        if short > 0 {
            self.starting.push((now + service.start, short));
        }
        let mut beyond = before.saturating_sub(wanted.replicas);
        // Those that would serve last go first.
        while beyond > 0 {
            let Some((at, count)) = self.starting.pop() else { break };
            let gone = beyond.min(count);
            beyond -= gone;
            if count > gone {
                self.starting.push((at, count - gone));
            }
            // What wakes was warm, what starts was nothing.
            if at - now <= service.wake {
                self.warm += gone;
            }
        }
        let stops = beyond.min(self.ready);
        self.ready -= stops;
        let have = self.warm + Self::count(&self.sleeping);
        let sleeps = stops.min(wanted.warm.saturating_sub(have));
        if sleeps > 0 {
            self.sleeping.push((now + service.sleep, sleeps));
        }
        let spare = have + sleeps;
        self.warm -= self.warm.min(spare.saturating_sub(wanted.warm));
        // Spares that are not there yet come from nothing, and are warm when they have started.
        let missing = wanted.warm.saturating_sub(spare);
        if missing > 0 {
            self.sleeping.push((now + service.start, missing));
        }
        self.ready + Self::count(&self.starting) != before
    }
}

/// Runs a controller along demand.
pub fn run(demand: &Demand, service: &Service, controller: &mut dyn Controller, seed: u64) -> Outcome {
    let mut stream = RandomStream::new(seed, "arrivals", 0);
    let mut out = Outcome::default();
    let first = (demand.at(0.0) / service.rate).ceil().max(1.0) as u32;
    let mut replicas = Replicas { ready: first, ..Replicas::default() };
    let (mut queue, mut arrived, mut asked) = (0.0_f64, 0.0, 0.0);
    let period = controller.period().seconds().get();
    let bins = (demand.length() / service.bin) as u64;
    for bin in 0..bins {
        let now = bin as f64 * service.bin;
        replicas.pass(now);
        if now >= asked {
            let seen = Observed {
                now: Nanoseconds((now * 1e9) as u64),
                arrived: Some(arrived),
                queued: queue,
                running: (f64::from(replicas.ready) * service.rate * service.service).min(arrived / period.max(service.bin) * service.service),
                ready: replicas.ready,
                starting: Replicas::count(&replicas.starting),
                warm: replicas.warm + Replicas::count(&replicas.sleeping),
                requests: out.requests,
                late: out.late,
            };
            let wanted = controller.decide(&seen);
            out.changes += u32::from(replicas.follow(now, wanted, service));
            (arrived, asked) = (0.0, asked + period);
        }
        let mean = demand.at(now + service.bin / 2.0) * service.bin;
        let came = negative_binomial(&mut stream, mean, service.dispersion);
        let serves = f64::from(replicas.ready) * service.rate;
        let waited = if serves > 0.0 { queue / serves } else { f64::INFINITY };
        let after = (queue + came - serves * service.bin).max(0.0);
        let waits = if serves > 0.0 { after / serves } else { f64::INFINITY };
        // Of those that came in this bin, the wait goes from what it was to what it is.
        let late = share_beyond(waited, waits, service.wait);
        out.requests += came;
        out.late += came * late;
        queue = after;
        arrived += came;
        let busy = replicas.ready + Replicas::count(&replicas.starting);
        let falls = replicas.sleeping.iter().map(|(_, count)| f64::from(*count)).sum::<f64>();
        out.busy += (f64::from(busy) + falls) * service.bin;
        out.warm += f64::from(replicas.warm) * service.bin;
        out.bound += (demand.at(now) / service.rate).ceil() * service.bin;
    }
    out.cost = out.busy + out.warm * service.warm_cost;
    out
}

/// Of waits that go evenly from one to another, the share beyond a bound.
fn share_beyond(from: f64, to: f64, bound: f64) -> f64 {
    let (low, high) = (from.min(to), from.max(to));
    if low > bound || !low.is_finite() {
        return 1.0;
    }
    if high <= bound {
        return 0.0;
    }
    if high.is_finite() { (high - bound) / (high - low) } else { 1.0 }
}
