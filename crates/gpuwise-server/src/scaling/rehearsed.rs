//! Requests that come to a simulated service by a trace: a queue that flows.

use gpuwise_broker::{Look, Scaling};
use gpuwise_scale::{
    controller::{RequestTokens, TokensSeen},
    fluid::Demand,
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeSet;

/// What comes to a service, from when it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Rehearsal {
    pub requests: Demand,
    /// Tokens a second of prompts and of answers, where the trace says them.
    pub tokens: Option<(Demand, Demand)>,
}

/// What came between two times, in seconds. Rates go straight from one reading to the next.
fn came(demand: &Demand, from: f64, until: f64) -> f64 {
    (until - from).max(0.0) * f64::midpoint(demand.at(from), demand.at(until))
}

/// A service between two looks.
#[derive(Debug)]
pub(super) struct Rehearsed {
    at: Option<Nanoseconds>,
    queued: f64,
    requests: f64,
    late: f64,
    /// Requests of those that a replica's rate counts that one of those that come is worth.
    worth: f64,
}

impl Default for Rehearsed {
    fn default() -> Self {
        Self {
            at: None,
            queued: 0.0,
            requests: 0.0,
            late: 0.0,
            worth: 1.0,
        }
    }
}

impl Rehearsed {
    /// What came since it was looked at last, and what of it was served by as many as are ready; the trace begins when
    /// the service was asked for.
    pub(super) fn look(
        &mut self,
        (service, scaling): (u32, &Scaling),
        comes: &Rehearsal,
        now: Nanoseconds,
        since: Nanoseconds,
        ready: u32,
    ) -> Look {
        let before = self.at.replace(now);
        let rules = scaling.rules();
        let from = before.unwrap_or(since).0.saturating_sub(since.0) as f64 / 1e9;
        let until = now.0.saturating_sub(since.0) as f64 / 1e9;
        let length = (until - from).max(0.0);
        let arrived = came(&comes.requests, from, until);
        let tokens = comes.tokens.as_ref().zip(rules.tokens);
        if tokens.is_none() {
            self.worth = 1.0;
        }
        let tokens = tokens.map(|((prompts, answers), of)| {
            let seen = TokensSeen {
                prompts: came(prompts, from, until),
                answers: came(answers, from, until),
            };
            self.weigh(arrived, seen, of);
            seen
        });
        let serves = f64::from(ready) * rules.rate / self.worth;
        let all = self.queued + arrived;
        self.queued = (all - serves * length).max(0.0);
        let waits = if serves > 0.0 {
            self.queued / serves
        } else {
            f64::INFINITY
        };
        self.requests += arrived;
        if self.queued > 0.0 && waits > rules.wait.seconds().get() {
            self.late += arrived;
        }
        Look {
            service,
            arrived: before.map(|_| arrived),
            queued: self.queued,
            engine_queued: None,
            running: (all - self.queued).min(f64::from(ready)),
            tokens: tokens.filter(|_| before.is_some()),
            // There is no engine that has one.
            cache: None,
            requests: self.requests,
            late: self.late,
            // What a simulated replica has is answered at once.
            busy: BTreeSet::new(),
            // The bound is the writer's.
            waiting: None,
        }
    }

    /// What a request is worth by its tokens; where none came it is what it was.
    fn weigh(&mut self, arrived: f64, seen: TokensSeen, of: RequestTokens) {
        let worth = (seen.prompts / of.prompt).max(seen.answers / of.answer) / arrived;
        if worth.is_finite() && worth > 0.0 {
            self.worth = worth;
        }
    }
}
