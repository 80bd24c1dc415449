//! A service as a queue that flows: demand in, replicas that serve at a rate, replicas that take a while to start.
//!
//! Arrivals of a bin are counts of a negative binomial distribution around the rate, which goes straight from one
//! reading to the next; the queue is served first in, first out. A request is late when the queue before it takes
//! longer than the SLO allows.

mod arrivals;

pub use arrivals::{Demand, negative_binomial};

use crate::controller::{Controller, Decision, Observed, Wanted};
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
    /// What a warm replica costs beside one that serves; `None`: none can be.
    pub warm_cost: Option<f64>,
    /// Replicas that serve at least; 0: none of ours once nothing has come for so many seconds.
    pub min: u32,
    pub idle: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// Seconds of a bin.
    pub bin: f64,
}

impl Default for Service {
    /// The service on which the peers' published figures stand: five requests a second a replica, four seconds each.
    fn default() -> Self {
        Self {
            rate: 5.0,
            service: 4.0,
            wait: 2.0,
            start: 180.0,
            wake: 5.0,
            sleep: 10.0,
            warm_cost: Some(0.1),
            min: 1,
            idle: 600.0,
            dispersion: 3.0,
            bin: 5.0,
        }
    }
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

    /// A bin of what is held.
    fn add(&mut self, replicas: &Replicas, service: &Service) {
        // Those that fall asleep or start in order to be warm cost as much as those that serve.
        let held = replicas.ready + count(&replicas.starting) + count(&replicas.sleeping);
        self.busy += f64::from(held) * service.bin;
        self.warm += f64::from(replicas.warm) * service.bin;
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

fn count(of: &[(f64, u32)]) -> u32 {
    of.iter().map(|(_, count)| count).sum()
}

impl Replicas {
    fn pass(&mut self, now: f64) {
        let over = |list: &mut Vec<(f64, u32)>| -> u32 {
            let done = list
                .iter()
                .filter(|(at, _)| *at <= now)
                .map(|(_, count)| count)
                .sum();
            list.retain(|(at, _)| *at > now);
            done
        };
        self.ready += over(&mut self.starting);
        self.warm += over(&mut self.sleeping);
    }

    /// Goes to what is wanted; whether anything changed.
    fn follow(&mut self, now: f64, wanted: Wanted, service: &Service) -> bool {
        let before = self.ready + count(&self.starting);
        self.start(now, wanted.replicas.saturating_sub(before), service);
        let stopped = self.stop(now, before.saturating_sub(wanted.replicas), service);
        let have = self.warm + count(&self.sleeping);
        let sleeps = stopped.min(wanted.warm.saturating_sub(have));
        if sleeps > 0 {
            self.sleeping.push((now + service.sleep, sleeps));
        }
        let have = have + sleeps;
        self.warm -= self.warm.min(have.saturating_sub(wanted.warm));
        // Spares that are not there yet come from nothing, and are warm when they have started.
        let missing = wanted.warm.saturating_sub(have);
        if missing > 0 {
            self.sleeping.push((now + service.start, missing));
        }
        self.ready + count(&self.starting) != before
    }

    /// Starts some: the warm ones, those that are about to be warm, then from nothing.
    fn start(&mut self, now: f64, mut short: u32, service: &Service) {
        let woken = short.min(self.warm);
        if woken > 0 {
            self.warm -= woken;
            short -= woken;
            self.starting.push((now + service.wake, woken));
        }
        self.sleeping.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, count) in &mut self.sleeping {
            let taken = if *at < now + service.start {
                short.min(*count)
            } else {
                0
            };
            if taken > 0 {
                self.starting.push((*at + service.wake, taken));
            }
            *count -= taken;
            short -= taken;
        }
        self.sleeping.retain(|(_, count)| *count > 0);
        if short > 0 {
            self.starting.push((now + service.start, short));
        }
    }

    /// Stops some, first those that would serve last; how many of them served.
    fn stop(&mut self, now: f64, mut beyond: u32, service: &Service) -> u32 {
        while beyond > 0 {
            let Some((at, count)) = self.starting.pop() else {
                break;
            };
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
        stops
    }
}

/// Runs a controller along demand; `told`: each decision and what it was asked with.
pub fn run(
    demand: &Demand,
    service: &Service,
    controller: &mut dyn Controller,
    seed: u64,
    mut told: impl FnMut(&Observed, &Decision),
) -> Outcome {
    let mut stream = RandomStream::new(seed, "arrivals", 0);
    let mut out = Outcome::default();
    // It begins with what the first reading needs, or what is there at all times.
    let needs = (demand.at(0.0) / service.rate).ceil().max(1.0) as u32;
    let begins = controller.begins().unwrap_or(needs).max(service.min);
    let mut replicas = Replicas {
        ready: begins,
        ..Replicas::default()
    };
    let period = controller.period().seconds().get();
    let (mut queue, mut arrived, mut asks) = (0.0_f64, 0.0, period);
    let bins = (demand.length() / service.bin) as u64;
    for bin in 0..bins {
        let now = bin as f64 * service.bin;
        replicas.pass(now);
        if now >= asks {
            let asked = Observed {
                now: Nanoseconds((now * 1e9) as u64),
                arrived: Some(arrived),
                queued: queue,
                running: (f64::from(replicas.ready) * service.rate)
                    .min(arrived / period.max(service.bin))
                    * service.service,
                ready: replicas.ready,
                starting: count(&replicas.starting),
                warm: replicas.warm,
                warming: count(&replicas.sleeping),
                requests: out.requests,
                late: out.late,
                ..Observed::default()
            };
            let mut decision = controller.decide(&asked);
            // The least that is set holds for peers as for ours.
            let wanted = &mut decision.wanted.replicas;
            *wanted = (*wanted).max(service.min);
            told(&asked, &decision);
            out.changes += u32::from(replicas.follow(now, decision.wanted, service));
            (arrived, asks) = (0.0, asks + period);
        }
        let mean = demand.at(now + service.bin / 2.0) * service.bin;
        let came = negative_binomial(&mut stream, mean, service.dispersion);
        let serves = f64::from(replicas.ready) * service.rate;
        let waits = |queue: f64| {
            if serves > 0.0 {
                queue / serves
            } else {
                f64::INFINITY
            }
        };
        let after = (queue + came - serves * service.bin).max(0.0);
        out.requests += came;
        // Of those that came in this bin, the wait goes from what it was to what it is.
        out.late += came * share_beyond(waits(queue), waits(after), service.wait);
        (queue, arrived) = (after, arrived + came);
        out.add(&replicas, service);
        out.bound += (demand.at(now) / service.rate).ceil() * service.bin;
    }
    out.cost = out.busy + out.warm * service.warm_cost.unwrap_or(1.0);
    out
}

/// Of waits that go evenly from one to another, the share beyond a bound.
pub(crate) fn share_beyond(from: f64, to: f64, bound: f64) -> f64 {
    let (low, high) = (from.min(to), from.max(to));
    if low > bound || !low.is_finite() {
        return 1.0;
    }
    if high <= bound {
        return 0.0;
    }
    if high.is_finite() {
        (high - bound) / (high - low)
    } else {
        1.0
    }
}
