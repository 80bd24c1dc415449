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
    /// So many at once, as they always did: all requests have one length.
    Together(f64),
}

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
        let together = match arrivals {
            Arrivals::Random(spread) => arriving(prompts / spread),
            Arrivals::Together(requests) => requests,
        };
        let lump = self.lump(lengths, together, others * decodes);
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
    /// others decode; in a sweep also the intervals of its launch script.
    pub(crate) fn admission(&self, flow: &Flow, decodes: f64, sweep: bool) -> f64 {
        let steps = self.admit + if sweep { self.sweep } else { 0.0 };
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
