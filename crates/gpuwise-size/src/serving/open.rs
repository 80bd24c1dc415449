//! An open loop: requests arrive at a rate, whether or not the server keeps up.

use super::{
    Cycle, Latency, Lengths,
    flow::{Arrivals, Flow},
};

/// Arrivals at one attention group, and their lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenLoop {
    /// Requests a second.
    pub rate: f64,
    /// Squared coefficient of variation of the gaps between arrivals.
    pub burstiness: f64,
    /// Lengths of requests.
    pub lengths: Lengths,
    /// Squared coefficient of variation of prompt lengths.
    pub input_variation: f64,
    /// Sequences that fit the cache and the engine's limit.
    pub capacity: f64,
    /// Requests of the run, where it ends: beyond the largest rate they queue for as long.
    pub requests: Option<f64>,
}

/// Mean latencies and what is needed for their percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quantiles {
    /// Means.
    pub mean: Latency,
    /// Mean wait for other prompts, part of the mean time to first token.
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

/// Of the prompt tokens that steps can compute, those that can be asked for without queues that grow.
const BUSIEST: f64 = 0.98;
/// Steps of a bisection.
const SEARCH: usize = 40;
const NEAR: f64 = 1e-6;

impl OpenLoop {
    fn flow(&self, cycle: &Cycle, decodes: f64) -> Flow {
        cycle.flow(&self.lengths, decodes, 1.0, Arrivals::Random(1.0))
    }

    /// The largest rate that one group sustains.
    pub fn largest_rate(&self, cycle: &Cycle) -> f64 {
        self.largest(cycle).0
    }

    /// That rate, and how many sequences decode at it.
    fn largest(&self, cycle: &Cycle) -> (f64, f64) {
        let capacity = self.capacity.max(1.0);
        if self.lengths.after_first() < 1e-6 {
            let lump = cycle.lump(&self.lengths, capacity, 0.0);
            return (BUSIEST / (lump.step * lump.for_each), 0.0);
        }
        // A waiting or entering prompt holds a place as well.
        let held = |decodes: f64, flow: &Flow| {
            decodes + flow.rate * (flow.lump.service() + flow.queue(0.5).min(flow.full))
        };
        let fits = |decodes: f64| {
            let flow = self.flow(cycle, decodes);
            let within = flow.busy <= BUSIEST && held(decodes, &flow) <= capacity;
            (within, flow.rate)
        };
        let (whole, rate) = fits(capacity);
        if whole {
            return (rate, capacity);
        }
        let (mut low, mut high) = (0.0, capacity);
        let mut found = 0.0;
        for _ in 0..SEARCH {
            if high - low < 1e-4 * high {
                break;
            }
            let middle = 0.5 * (low + high);
            match fits(middle) {
                (true, rate) => (low, found) = (middle, rate),
                (false, _) => high = middle,
            }
        }
        (found, low)
    }

    /// The number of decoding sequences that a sustainable rate brings (Little's law).
    fn decoding(&self, cycle: &Cycle, most: f64) -> f64 {
        let (mut low, mut high) = (0.0, most);
        let mut decodes =
            (self.rate * self.lengths.after_first() * self.flow(cycle, 0.0).tpot).min(0.5 * most);
        for _ in 0..SEARCH {
            let flow = self.flow(cycle, decodes.max(1e-9));
            if flow.rate > self.rate {
                high = decodes;
            } else {
                low = decodes;
            }
            // As many as arrive while one decodes; where that leaps out of what is known, its middle.
            let next = self.rate * self.lengths.after_first() * flow.tpot;
            if (next - decodes).abs() < NEAR * decodes.max(1e-3) {
                return next.min(most);
            }
            decodes = if next > low && next < high {
                next
            } else {
                0.5 * (low + high)
            };
        }
        decodes
    }

    /// Latencies at the rate. Beyond the largest rate a run of so many requests queues for half of the
    /// time by which it takes longer than it lasts, on average; without an end it is called unstable
    /// and gets the latency of the largest rate.
    pub fn solve(&self, cycle: &Cycle) -> Quantiles {
        let (largest, most) = self.largest(cycle);
        let load = self.rate / largest.max(1e-12);
        let rate = self.rate.min(largest);
        let variability = 0.5 * (self.burstiness + self.input_variation);
        let front = cycle.fronted(self.lengths.input);
        let run = self.requests.unwrap_or(0.0);
        let grown = 0.5 * run * (1.0 / rate - 1.0 / self.rate).max(0.0);
        if self.lengths.after_first() < 1e-6 {
            let lump = cycle.lump(&self.lengths, 1.0, 0.0);
            let busy = (rate / largest * BUSIEST).min(BUSIEST);
            let wait = busy / (1.0 - busy) * lump.service() * variability + grown;
            return Quantiles {
                mean: Latency {
                    ttft: front + lump.service() + wait,
                    tpot: cycle.decode(1.0, self.lengths.context()),
                    running: 0.0,
                    requests: rate,
                },
                wait,
                decode: cycle.decode(1.0, self.lengths.context()),
                load,
                stable: load < 1.0,
                ..Quantiles::default()
            };
        }
        let decodes = if load < 1.0 {
            self.decoding(cycle, most)
        } else {
            most
        };
        let flow = self.flow(cycle, decodes.max(1e-9));
        let (mixed_share, mixed_extra) = flow.lump.hits(flow.prompts);
        let queue = flow.queue(variability).min(1e6);
        let behind = flow.behind(queue + flow.lump.service(), self.lengths.after_first());
        // Waiting for other prompts is as good as exponential; steps under way have an end.
        let wait = queue + grown;
        let admission = cycle.admission(&flow, decodes);
        Quantiles {
            mean: Latency {
                ttft: front + flow.lump.service() + admission + wait,
                tpot: flow.tpot + behind,
                running: rate * self.lengths.after_first() * (flow.tpot + behind),
                requests: rate,
            },
            wait,
            mixed_share,
            mixed_extra,
            decode: flow.decode,
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
