//! The steady flow of an attention group: so many sequences decode, and prompts enter as fast as
//! answers end.
//!
//! Everything that follows from a number of decoding sequences is said here once; the closed loop asks
//! for the number that its requests in flight allow, the open loop for the one that its rate brings.
//! Work is conserved: each prompt's tokens are computed in steps, whose time is never below what
//! silicon takes, and each answer's tokens but the first in as many steps.

use super::{Cycle, Latency, Lengths, mixed::Lump};
use crate::speed::Peers;

/// How prompts come to a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// At random, over this share of the time (1: all of it; less where requests that started
    /// together still end together).
    Random(f64),
    /// The same, and the engine gathers them before it computes them.
    Gathered(f64, Gather),
    /// So many at once, as they always did: all requests have one length.
    Together(f64),
}

/// How an engine gathers requests before it computes their prompts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gather {
    /// Steps for which it does at most (1: it does not).
    pub steps: f64,
    /// Whether ranks of data-parallel attention then compute prompts in the same step, which they do
    /// as soon as all have one.
    pub balanced: bool,
}

impl Gather {
    /// Whoever is there when a step begins is in it.
    pub const NONE: Self = Self {
        steps: 1.0,
        balanced: false,
    };

    /// Steps for which it gathers where a step meets so many prompts of each of these groups: until
    /// the last of them has one, the expected largest of exponential times, which is the sum of
    /// 1, 1/2, 1/3 … of their mean.
    fn lasts(self, prompts: f64, groups: u32) -> f64 {
        if !self.balanced {
            return self.steps;
        }
        let all: f64 = (1..=groups.min(MANY_GROUPS)).map(|k| 1.0 / f64::from(k)).sum();
        (all / prompts.max(1e-9)).clamp(1.0, self.steps.max(1.0))
    }
}

/// Groups beyond which the sum hardly grows.
const MANY_GROUPS: u32 = 1024;

/// A group's steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Flow {
    /// Seconds of a step without prompts for each token that it yields.
    pub(crate) decode: f64,
    /// Seconds of a mean step.
    pub(crate) step: f64,
    /// Seconds for each token after the first.
    pub(crate) tpot: f64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// What prompts add to steps.
    pub(crate) lump: Lump,
    /// Prompts for each step.
    pub(crate) prompts: f64,
    /// Share of the prompt tokens that steps could compute at most.
    pub(crate) busy: f64,
    /// Seconds of a step that computes all the prompt tokens that it can.
    pub(crate) full: f64,
    /// Steps for which requests are gathered.
    pub(crate) gathered: f64,
}

impl Cycle {
    /// The flow in which `decodes` sequences decode on average, of which a decoding one meets the
    /// share `others` beside itself.
    pub(crate) fn flow(
        &self,
        lengths: &Lengths,
        decodes: f64,
        others: f64,
        arrivals: Arrivals,
    ) -> Flow {
        let (tokens_per_step, _) = self.yields();
        let answer = lengths.after_first();
        // Every sequence ends after so many steps, and a prompt takes its place.
        let prompts = decodes * tokens_per_step / answer;
        let decode = self.decode_step(1.0 + others * decodes, lengths.context(), Peers::Alike);
        let (together, gathered, balanced) = match arrivals {
            Arrivals::Random(spread) => (arriving(prompts / spread), 1.0, false),
            Arrivals::Gathered(spread, gather) => {
                let steps = gather.lasts(prompts, self.steps.attention_groups());
                (arriving(prompts * steps / spread), steps, gather.balanced)
            }
            Arrivals::Together(requests) => (requests, 1.0, false),
        };
        let lump = self.lump(lengths, together, others * decodes);
        let lump = if balanced { lump.balanced() } else { lump };
        let step = decode + lump.adds(others * prompts);
        let tpot = step / tokens_per_step;
        let rate = decodes / (answer * tpot);
        let most = self.budget() / lengths.input.max(1.0);
        let full = if self.prefills_first() {
            lump.step * lump.for_each * most
        } else {
            // What prompts add grows with their tokens; decoding goes on beside them.
            let idle = (lump.step - lump.adds(1.0) / lump.for_each).max(0.0);
            idle + (lump.step - idle) * lump.for_each * most
        };
        Flow {
            decode: decode / tokens_per_step,
            step,
            tpot,
            rate,
            lump,
            prompts,
            busy: rate / most * full,
            full,
            gathered,
        }
    }
}

impl Cycle {
    /// Seconds of steps that one request's prompt and its answer take of a group at this state.
    pub(crate) fn seconds_of_one(&self, lengths: &Lengths, at: &Latency) -> (f64, f64) {
        let (tokens_per_step, _) = self.yields();
        let prompts = at.requests * at.tpot * tokens_per_step;
        let running = at.running.max(1.0);
        let lump = self.lump(lengths, arriving(prompts), at.running);
        let decode = self.decode_step(running, lengths.context(), Peers::Alike);
        let prompt = if prompts > 0.0 {
            lump.adds(prompts) / prompts
        } else {
            0.0
        };
        (
            prompt,
            lengths.after_first() / tokens_per_step * decode / running,
        )
    }
}

impl Flow {
    /// Mean seconds that a prompt queues for others that arrive at random, at this variability of
    /// gaps and lengths (Kingman's formula). Infinite where prompts are more than steps compute.
    pub(crate) fn queue(&self, variability: f64) -> f64 {
        if self.busy >= 1.0 {
            return f64::INFINITY;
        }
        self.busy / (1.0 - self.busy) * self.lump.service() * variability
    }

    /// Seconds by which time per token is longer where prompts come at random: those that arrived
    /// while a prompt waited and was computed are computed right after it, when its answer decodes.
    pub(crate) fn behind(&self, first: f64, answer: f64) -> f64 {
        let prompt = self.lump.adds(1.0);
        let share = (self.rate * prompt).min(MOST_BEHIND);
        self.rate * first * prompt / (1.0 - share) / answer
    }
}

impl Cycle {
    /// Seconds until the steps end that are under way or planned when a request arrives, where so many
    /// others decode; on average half of those for which requests are gathered come after it.
    pub(crate) fn admission(&self, flow: &Flow, decodes: f64) -> f64 {
        let steps = self.admit + 0.5 * (flow.gathered - 1.0);
        steps * flow.step * decodes / (decodes + 1.0)
    }
}

/// Share of time beyond which prompts are not taken to follow each other for ever: a run ends.
const MOST_BEHIND: f64 = 0.5;

/// Prompts in a step that meets any, where a step meets so many on average at random.
fn arriving(mean: f64) -> f64 {
    if mean < 1e-6 {
        return 1.0;
    }
    mean / -libm::expm1(-mean)
}
