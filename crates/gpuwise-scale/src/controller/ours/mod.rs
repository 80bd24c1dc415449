//! Our controller: serve what is there, keep warm what may come.
//!
//! What serves follows what arrives now, within the time that a warm replica takes to wake. What is warm beside it
//! covers the highest demand until a replica could be started from nothing; how far beyond what is expected that
//! reaches follows what is used of the error budget. Where nothing can be warm, all of it serves.

mod sought;
mod stream;
mod under;

use super::{
    Because, Controller, Decision, Doubt, IMPLAUSIBLE, Observed, Rules, Wanted, highest::Highest,
    spares::Covered,
};
use crate::cold::{ColdStart, Level};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use sought::whole;
use stream::{Came, Stream};

/// After so many start-ups without one that got ready no more are started.
const TOO_LONG: u64 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpuwise {
    rules: Rules,
    /// Requests; where tokens are counted those of prompts, in requests.
    stream: Stream,
    /// Tokens of answers, in requests, once somebody counts them.
    #[serde(default)]
    answers: Option<Box<Stream>>,
    serving: Highest,
    all: Highest,
    /// How long a start takes.
    cold: ColdStart,
    /// The same, nine times of ten.
    start: Nanoseconds,
    /// Since when replicas start without one that got ready, and how many were ready then.
    waiting: Option<(Nanoseconds, u32)>,
    /// When a request last came, waited or ran, or a replica last started: idle counts from there.
    last: Nanoseconds,
    /// Whether replicas started when it was last asked.
    #[serde(default)]
    started: bool,
    #[serde(default)]
    doubt: Doubt,
    /// When it was last asked.
    asked: Option<Nanoseconds>,
    /// How many were to serve then: what is beyond them is on its way out.
    wanted: Option<u32>,
}

impl Gpuwise {
    pub fn new(rules: Rules) -> Self {
        Self {
            stream: Stream::new(&rules),
            answers: None,
            serving: Highest::default(),
            all: Highest::default(),
            cold: ColdStart::of_p90(rules.start),
            start: rules.start,
            waiting: None,
            last: Nanoseconds(0),
            started: false,
            doubt: Doubt::default(),
            asked: None,
            wanted: None,
            rules,
        }
    }

    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Of what came since it was last asked, the part of a period: who is asked late is told of a longer time, which is
    /// no burst.
    fn part(&mut self, now: Nanoseconds) -> f64 {
        let period = self.rules.period.0;
        let before = self.asked.replace(now);
        let spent = before.map_or(period, |before| now.0.saturating_sub(before.0));
        period as f64 / spent.max(period) as f64
    }

    /// Learns of what came.
    fn take(&mut self, seen: &Observed, came: Came) {
        let part = self.part(seen.now);
        self.stream.take(seen, &self.rules, Some(came.first), part);
        if came.answers.is_some() && self.answers.is_none() {
            self.answers = Some(Box::new(Stream::new(&self.rules)));
        }
        if let Some(answers) = &mut self.answers {
            answers.take(seen, &self.rules, came.answers, part);
        }
        let comes = came.first > 0.0 || came.answers.is_some_and(|answers| answers > 0.0);
        let works = comes || seen.queued > 0.0 || seen.running > 0.0;
        // What waits for a replica that starts is not seen everywhere; once that serves, it has all of the idle time.
        let starts = seen.starting > 0;
        if works || starts || self.started {
            self.last = seen.now;
        }
        self.started = starts;
    }

    /// Whether so much came that it is held back.
    fn doubts(&mut self, seen: &Observed, came: &Came) -> bool {
        let period = self.rules.period.0;
        let spent = self
            .asked
            .map_or(period, |before| seen.now.0.saturating_sub(before.0));
        let seconds = Nanoseconds(spent.max(period)).seconds().get();
        let there = seen.serving().saturating_add(seen.spares());
        // Of a service that is new nothing is known yet.
        let least = if self.asked.is_none() {
            IMPLAUSIBLE
        } else {
            1.0
        };
        let known = self
            .demand()
            .max(f64::from(there).max(least) * self.rules.rate);
        self.doubt
            .holds(came.first.max(came.answers.unwrap_or(0.0)) / seconds, known)
    }

    /// One sample is beyond all that is known: what is there stays, and one at least, since something came.
    fn doubted(&mut self, seen: &Observed) -> Decision {
        let held = self.hold(seen);
        let replicas = held.wanted.replicas.max(1).min(self.rules.max);
        Decision {
            wanted: Wanted {
                replicas,
                warm: held
                    .wanted
                    .warm
                    .min(self.rules.max.saturating_sub(replicas)),
            },
            because: Because::Implausible,
            ..held
        }
    }

    /// Metrics say nothing: what is there stays.
    fn hold(&mut self, seen: &Observed) -> Decision {
        self.asked = Some(seen.now);
        self.stream.skip(seen.now);
        if let Some(answers) = &mut self.answers {
            answers.skip(seen.now);
        }
        self.wanted = None;
        // What came meanwhile is not known: it is not taken for nothing.
        self.last = seen.now;
        Decision {
            because: Because::NoMetrics,
            ..Decision::from(Wanted {
                replicas: seen.serving(),
                warm: seen.spares(),
            })
        }
    }

    /// How many serve, and why, before bounds and what cannot be started.
    fn held(
        &mut self,
        seen: &Observed,
        needs: f64,
        queued: bool,
        cover: &Covered,
    ) -> (u32, Because) {
        let idle = seen.now.0.saturating_sub(self.last.0) >= self.rules.idle.0;
        if self.rules.min == 0 && idle {
            // For how long nothing must have come is the policy's to say.
            self.serving = Highest::default();
            return (0, Because::Idle);
        }
        let sought = self.sought(needs, self.demand(), cover, idle);
        let serving = seen.serving();
        let serving = self.wanted.map_or(serving, |wanted| wanted.min(serving));
        self.steady(seen.now, serving, &sought, queued)
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
        seen.now.0.saturating_sub(since.0) > self.start.0.saturating_mul(TOO_LONG)
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

impl Controller for Gpuwise {
    fn period(&self) -> Nanoseconds {
        self.rules.period
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        self.learn_start(seen.started);
        let Some(came) = Came::of(seen, &self.rules) else {
            return self.hold(seen);
        };
        if self.doubts(seen, &came) {
            return self.doubted(seen);
        }
        self.take(seen, came);
        let demand = self.demand();
        let (needs, queued) = self.needs(seen, demand);
        let cover = self.covered(demand);
        let serving = seen.serving();
        let (held, because) = self.held(seen, needs, queued, &cover);
        let (held, because) = self.bounded(held, because);
        let (held, because) = if held > serving && self.stuck(seen) {
            (serving.max(self.rules.min), Because::NotReady)
        } else {
            (held, because)
        };
        self.wanted = Some(held);
        let total = whole(cover.all.max(demand) / self.rules.rate).max(whole(needs));
        let warm = match self.rules.warm_cost {
            Some(cost) if because != Because::NotReady => {
                let all = self.all.of(seen.now, self.keeps(cost), total);
                all.min(self.rules.max).saturating_sub(held)
            }
            Some(_) => seen.spares(),
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
