//! An open loop: requests arrive at a rate, whether or not the server keeps up.

use super::{Cycle, Latency};

/// Arrivals at one attention group, and their lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoop {
    /// Requests a second.
    pub rate: f64,
    /// Squared coefficient of variation of the gaps between arrivals.
    pub burstiness: f64,
    /// Prompt tokens to compute.
    pub input: f64,
    /// Prompt tokens found in the prefix cache.
    pub cached: f64,
    /// Output tokens.
    pub output: f64,
    /// Squared coefficient of variation of prompt lengths.
    pub input_variation: f64,
    /// Sequences that fit the cache and the engine's limit.
    pub capacity: f64,
}

/// Mean latencies and what is needed for their percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quantiles {
    /// Means.
    pub mean: Latency,
    /// Mean wait for a place in a step, part of the mean time to first token.
    pub wait: f64,
    /// Share of steps that carry a prompt, and how much longer they are.
    pub mixed_share: f64,
    /// Seconds that a prompt adds to a step.
    pub mixed_extra: f64,
    /// Seconds of a step without prompts.
    pub decode: f64,
    /// Share of the largest sustainable rate.
    pub load: f64,
    /// Whether the rate can be sustained.
    pub stable: bool,
}

impl OpenLoop {
    /// The largest rate that one group sustains.
    pub fn largest_rate(&self, cycle: &Cycle) -> f64 {
        let context = self.cached + self.input + self.output / 2.0;
        let slots = self.capacity.max(1.0);
        let (decode, mixed) = cycle.decode_and_mixed(slots, context, self.input, self.cached);
        // Every step ends slots/output requests, each of which brings a prompt.
        let output = self.output.max(1.0);
        let prompts = slots / output * cycle.tokens_per_step;
        slots / (output * decode + slots * mixed.each(prompts))
    }

    /// Latencies at the rate; unstable rates get the latency of a full server and a wait that
    /// grows without bound over the run.
    pub fn solve(&self, cycle: &Cycle) -> Quantiles {
        let largest = self.largest_rate(cycle);
        let load = self.rate / largest.max(1e-12);
        let context = self.cached + self.input + self.output / 2.0;
        let mut running = 1.0f64;
        let (mut decode, mut mixed) = cycle.decode_and_mixed(1.0, context, self.input, self.cached);
        let mut tpot = decode;
        // Little's law: as many run as arrive while one lives.
        for _ in 0..40 {
            let prompts = self.rate * tpot * cycle.tokens_per_step;
            let share = (self.rate * mixed.each(prompts)).min(0.95);
            let next = decode / (1.0 - share);
            let wanted = (self.rate * self.output * next).clamp(0.05, self.capacity);
            if (wanted - running).abs() < 2e-3 * running && (next - tpot).abs() < 2e-4 * tpot {
                break;
            }
            running = 0.5 * (running + wanted);
            tpot = next;
            (decode, mixed) =
                cycle.decode_and_mixed(running.max(1.0), context, self.input, self.cached);
        }
        let prompts = self.rate * tpot * cycle.tokens_per_step;
        // Prompts of other groups lengthen steps, but only those of the own one are queued before.
        let service = mixed.own(prompts);
        let (mixed_share, mixed_extra) = mixed.hits(self.rate * tpot);
        let busy = (self.rate * service).min(0.95);
        let variability = 0.5 * (self.burstiness + self.input_variation);
        // Prompts queue for each other (Kingman), and wait for the step under way.
        let wait = busy / (1.0 - busy) * service * variability
            + (running / (running + 1.0))
                * 0.5
                * tpot
                * cycle.tokens_per_step
                * cycle.admit.min(4.0);
        let alone = cycle.prefill_alone(self.input, self.cached)
            + cycle.base
            + cycle.token_cost * self.input;
        // While decoding goes on, a prompt takes the mixed step's time.
        let first = alone + running / (running + 1.0) * decode * cycle.tokens_per_step;
        Quantiles {
            mean: Latency {
                ttft: first + wait,
                tpot,
                running,
                requests: self.rate.min(largest),
            },
            wait,
            mixed_share,
            mixed_extra,
            decode,
            load,
            stable: load < 1.0,
        }
    }
}

impl Quantiles {
    /// Time to first token at a fraction (0.95 for p95): the wait is nearly exponential.
    pub fn ttft(&self, fraction: f64) -> f64 {
        let fixed = self.mean.ttft - self.wait;
        fixed + self.wait * libm::log(1.0 / (1.0 - fraction))
    }

    /// Time per output token at a fraction: requests that meet more prompts take longer.
    pub fn tpot(&self, fraction: f64, output: f64) -> f64 {
        let hits = self.mixed_share * output.max(1.0);
        let spread = self.mixed_extra * libm::sqrt(hits.max(0.0)) / output.max(1.0);
        self.mean.tpot + spread * normal_quantile(fraction)
    }
}

/// The standard normal quantile, to 4.5e-4 (Abramowitz and Stegun, 26.2.23).
pub(crate) fn normal_quantile(fraction: f64) -> f64 {
    let p = fraction.clamp(1e-9, 1.0 - 1e-9);
    let tail = if p < 0.5 { p } else { 1.0 - p };
    let t = libm::sqrt(-2.0 * libm::log(tail));
    let value = t
        - (2.515517 + t * (0.802853 + t * 0.010328))
            / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    if p < 0.5 { -value } else { value }
}
