//! A closed loop: a fixed number of requests in flight.

use super::Cycle;
use crate::speed::Batch;

/// Requests in flight on one attention group, and their lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedLoop {
    /// Requests in flight.
    pub concurrency: f64,
    /// Prompt tokens to compute (without cached ones).
    pub input: f64,
    /// Prompt tokens found in the prefix cache.
    pub cached: f64,
    /// Output tokens.
    pub output: f64,
    /// Sequences that fit the cache and the engine's limit.
    pub capacity: f64,
    /// Whether all requests have one length, so that those that start together end together.
    pub one_length: bool,
}

/// Mean latencies in seconds and rates of one attention group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// Time to first token.
    pub ttft: f64,
    /// Time per output token after the first.
    pub tpot: f64,
    /// Sequences that decode at once.
    pub running: f64,
    /// Requests a second.
    pub requests: f64,
}

impl Latency {
    /// From request to last token.
    pub fn end_to_end(&self, output: f64) -> f64 {
        self.ttft + (output - 1.0).max(0.0) * self.tpot
    }
}

impl ClosedLoop {
    /// Seconds below which the operations of one request cannot be done.
    fn computing_at_peak(&self, cycle: &Cycle) -> f64 {
        let prompt = Batch {
            prefill: self.input,
            prefill_context: self.cached + self.input / 2.0,
            finished: 1.0,
            ..Batch::default()
        };
        let answer = Batch {
            decodes: 1.0,
            context: self.cached + self.input + self.output / 2.0,
            ..Batch::default()
        };
        let tokens = (self.output - 1.0).max(0.0);
        cycle.steps.computing_at_peak(&prompt) + tokens * cycle.steps.computing_at_peak(&answer)
    }

    /// The steady state of the loop.
    ///
    /// Each sequence lives one prefill and `output` steps; every step admits as many prompts as
    /// end. What prompts add to steps is shared by all that decode, unless requests arrive
    /// together: then it is time to first token instead.
    pub fn solve(&self, cycle: &Cycle) -> Latency {
        let context = self.cached + self.input + self.output / 2.0;
        let slots = self.concurrency.min(self.capacity).max(1.0);
        let alone = cycle.prefill(1.0, self.input, self.cached)
            + cycle.base
            + cycle.token_cost * self.input;
        let mut running = slots;
        let mut latency = Latency::default();
        for _ in 0..3 {
            let (decode, mixed) = cycle.decode_and_mixed(running, context, self.input, self.cached);
            let mixed = mixed.together(running / self.output.max(1.0) * cycle.tokens_per_step);
            let others = (slots - 1.0).max(0.0);
            let together = if self.one_length {
                cycle.burst_fixed
            } else {
                cycle.burst
            } / 2.0;
            let tpot =
                decode + (1.0 - together) * (running - 1.0).max(0.0) / self.output.max(1.0) * mixed;
            let busy = (others / slots).min(1.0);
            let ttft = alone + busy * 0.5 * cycle.admit * tpot + together * others * mixed;
            let decoding = (self.output - 1.0).max(0.0) * tpot;
            // Between two ends of requests the operations of one are done: who comes waits for those
            // of others at least as long as silicon takes for them.
            let ttft = ttft.max(slots * self.computing_at_peak(cycle) - decoding);
            let life = ttft + decoding;
            let waiting = (self.concurrency - slots).max(0.0) * life / slots;
            latency = Latency {
                ttft: ttft + waiting,
                tpot,
                running,
                requests: slots / life.max(1e-9),
            };
            running =
                (slots * (self.output - 1.0).max(0.0) * tpot / life.max(1e-12)).clamp(1.0, slots);
        }
        latency
    }
}
