//! The steady flow of an attention group: so many sequences decode, and prompts enter as fast as
//! answers end.
//!
//! Everything that follows from a number of decoding sequences is said here once; the closed loop asks
//! for the number that its concurrent requests allow, the open loop for the one that its rate brings.
//! Work is conserved: each prompt's tokens are computed in steps, whose time is never below what
//! silicon takes, and each answer's tokens but the first in as many steps.

use super::{Cycle, Latency, Lengths, mixed::PrefillChunk};
use crate::speed::Peers;

/// How prompts come to a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Arrivals {
    /// As places get free, at random over this share of the time (1: all of it; less where requests
    /// that started together still end together), and the engine gathers them before it computes them.
    Freed(f64, Gather),
    /// So many at once, as they always did: all requests have one length.
    Together(f64),
    /// Whenever they like, whatever steps take; squared variation of their lengths.
    Open(f64),
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
        let all: f64 = (1..=groups.min(MANY_GROUPS))
            .map(|k| 1.0 / f64::from(k))
            .sum();
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
    pub(crate) lump: PrefillChunk,
    pub(crate) prompts: f64,
    /// Share of the prompt tokens that steps could compute at most.
    pub(crate) busy: f64,
    /// Seconds of a step that computes all the prompt tokens that it can.
    pub(crate) full: f64,
    /// Steps for which requests are gathered.
    pub(crate) gathered: f64,
    /// Seconds that a prompt adds to decoding.
    each: f64,
    /// Prompts that fill a step.
    most: f64,
    /// Whether decoding waits for prompts.
    prefill_first: bool,
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
        let variation = match arrivals {
            Arrivals::Open(variation) => variation,
            _ => 0.0,
        };
        let beside = self.beside(others * decodes, lengths.context());
        let lump_of = |together: f64| self.lump_of(lengths, together, &beside, variation);
        let mut gathered = 1.0;
        let (lump, each) = match arrivals {
            Arrivals::Freed(spread, gather) => {
                gathered = gather.lasts(prompts, self.steps.attention_groups());
                let lump = lump_of(arriving(prompts * gathered / spread));
                let lump = if gather.balanced {
                    lump.balanced()
                } else {
                    lump
                };
                met(lump, others * prompts)
            }
            Arrivals::Together(requests) => met(lump_of(requests), others * prompts),
            Arrivals::Open(_) => self.gathered(decode, others * prompts, variation, lump_of),
        };
        let step = decode + others * prompts * each;
        let tpot = step / tokens_per_step;
        let rate = decodes / (answer * tpot);
        let most = self.budget() / lengths.input.max(1.0);
        let full = if self.steps.parts() > 1.0 && most > 1.0 {
            // Prompts that fill the stages of a pipeline pass them together.
            lump_of(most).step
        } else if self.prefills_first() {
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
            each,
            most,
            prefill_first: self.prefills_first(),
        }
    }

    /// The mean lump of prompts that come whenever they like, so many for each step that decodes, and
    /// what one of them adds.
    ///
    /// Steps with prompts are long, and more prompts wait at their end than at that of others: steps
    /// are taken to be of two lengths, each followed by a step with the prompts that came meanwhile.
    /// Groups that wait for each other then compute prompts in the same step more often than not.
    fn gathered(
        &self,
        decode: f64,
        prompts: f64,
        variation: f64,
        lump_of: impl Fn(f64) -> PrefillChunk,
    ) -> (PrefillChunk, f64) {
        let prompts = prompts.max(1e-9);
        let mut together = arriving(prompts);
        let (mut lump, mut each) = met(lump_of(together), prompts);
        for _ in 0..GATHERINGS {
            let (found, adds) = self.meeting(decode, prompts, variation, (&lump, each));
            each = adds;
            if (found - together).abs() < AGREED * together {
                return (lump, each);
            }
            // Halfway, because what more of them share makes fewer of them meet.
            together = libm::sqrt(together * found);
            lump = lump_of(together);
        }
        (
            lump,
            self.meeting(decode, prompts, variation, (&lump, each)).1,
        )
    }

    /// Prompts that meet in a group's lump, and what each adds, where lumps are like this one and a
    /// prompt was found to add so much.
    fn meeting(
        &self,
        decode: f64,
        prompts: f64,
        variation: f64,
        (lump, each): (&PrefillChunk, f64),
    ) -> (f64, f64) {
        // Random prompts of differing lengths vary as fewer and longer ones of one length do.
        let longer = 1.0 + variation;
        let added = |prompts: f64| longer * lump.adds(prompts / longer);
        let groups = f64::from(self.steps.attention_groups());
        let base = if self.prefills_first() { 0.0 } else { decode };
        let (mut each, mut long, mut together) = (each, base + each, 1.0);
        for _ in 0..GATHERINGS {
            let rate = prompts / (decode + prompts * each);
            let (calm, busy) = (rate * decode, rate * long);
            let none = |mean: f64| libm::exp(-mean);
            // Steps without prompts for each with some.
            let without = none(groups * busy) / -libm::expm1(-groups * calm);
            let came = without * calm + busy;
            let adds = without * added(calm) + added(busy);
            // Groups without prompts decode beside those that let their answers wait.
            let free =
                without * (none(calm) - none(groups * calm)) + none(busy) - none(groups * busy);
            let beside = if self.prefills_first() {
                free * decode
            } else {
                0.0
            };
            together = came / -(without * libm::expm1(-calm) + libm::expm1(-busy));
            let found = (adds - beside).max(adds / groups) / came;
            let agreed = (found - each).abs() < AGREED * each;
            (each, long) = (found, base + adds);
            if agreed {
                break;
            }
        }
        (together, each)
    }
}

/// A lump, and what each of so many prompts a step adds by it.
fn met(lump: PrefillChunk, prompts: f64) -> (PrefillChunk, f64) {
    let prompts = prompts.max(1e-9);
    (lump, lump.adds(prompts) / prompts)
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

    /// Mean seconds that a prompt waits for others which come whenever they like, at this variability.
    ///
    /// Where a step takes one prompt they are served in turn (Pollaczek and Khinchine). Where it takes
    /// many, all that came while the step before was computed end together: a step adds the prompts of
    /// the one before, s' = d + a·N(λs), whose second moment is that of a sum of N such times.
    pub(crate) fn wait(&self, variability: f64) -> f64 {
        if self.busy >= 1.0 {
            return f64::INFINITY;
        }
        let joint = self.busy * self.joint();
        let longer = (1.0 + 2.0 * joint) / (1.0 + joint);
        let one = self.full / self.most;
        self.busy / (1.0 - self.busy) * one * variability * longer
    }

    /// Share of the prompts that a step can take which are not alone in it.
    fn joint(&self) -> f64 {
        1.0 - 1.0 / self.most.max(1.0)
    }

    /// Seconds by which each token takes longer where prompts come whenever they like: those that came
    /// while its prompt waited so long are computed right after it, and those that come meanwhile.
    pub(crate) fn behind(&self, wait: f64, answer: f64) -> f64 {
        let idle = if self.prefill_first { 0.0 } else { self.decode };
        let own = (self.lump.service() - idle).max(0.0);
        let joint = self.joint();
        // Prompts in a step with others do not see those of it come.
        let after = 1.0 - joint + joint * self.busy / (0.5 + self.busy);
        let calm = self.decode / self.step.max(self.decode);
        let prompts = self.rate * (own + wait * after) * self.apart();
        let longer = prompts * self.each / calm;
        // Answers end before all prompts are computed where these are more than they have steps.
        let most = -libm::expm1(-prompts) * answer * (self.lump.step - idle).max(1e-12);
        longer / (1.0 + longer / most.max(1e-12)) / answer
    }

    /// Where decoding goes on beside prompts, an answer ends while others wait, too: of those behind a
    /// prompt only as many count as are more than in a mean step.
    fn apart(&self) -> f64 {
        if self.prefill_first {
            return 1.0;
        }
        let (long, short) = (self.lump.step.max(self.decode), self.decode);
        let steps = self.busy * short + (1.0 - self.busy) * long;
        let alone = (1.0 - self.busy).max(0.0) * (long - short) / steps.max(1e-12);
        alone + (1.0 - alone) * self.joint()
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

/// How near they have to come.
const AGREED: f64 = 1e-3;
/// Rounds in which lumps and what they gather come to agree.
const GATHERINGS: usize = 4;

/// Prompts in a step that meets any, where a step meets so many on average at random.
fn arriving(mean: f64) -> f64 {
    if mean < 1e-6 {
        return 1.0;
    }
    mean / -libm::expm1(-mean)
}
