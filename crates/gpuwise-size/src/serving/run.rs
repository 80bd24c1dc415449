//! A run that ends: it starts with as many requests at once as are kept in flight, goes on as a
//! closed loop, and ends with fewer and fewer. Where all are sent at once, that is all there is.

use super::{ClosedLoop, Cycle, Latency, closed::ArrivalBunching, normal_quantile};
use crate::speed::Peers;

/// The first requests of a run, which all arrive at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    /// Mean seconds to first token.
    pub(super) ttft: f64,
    /// Mean seconds to the last token.
    whole: f64,
    /// Seconds until the last of them ends.
    pub(super) last: f64,
    pub(super) tpot: f64,
}

impl ClosedLoop {
    /// Means over a run of so many requests; its rate is over all of its time.
    pub(super) fn run_of(&self, requests: f64, cycle: &Cycle) -> Latency {
        let sent = self.concurrency.min(requests).max(1.0);
        let inside = ClosedLoop {
            concurrency: sent,
            requests: None,
            ..*self
        };
        let slots = inside.slots().min(requests);
        let start = inside.start(cycle, slots);
        let later = requests - slots;
        if later <= 0.0 {
            return Latency {
                ttft: start.ttft,
                tpot: start.tpot,
                running: slots,
                requests: requests / start.last,
            };
        }
        // Later ones take the places of those that end, at the steady rate.
        let loop_of = ClosedLoop {
            concurrency: slots,
            ..inside
        };
        let first = if self.one_length { 1.0 } else { cycle.scatter };
        let steady = loop_of.steady(cycle, ArrivalBunching::of_run(first, requests / sent));
        // Those sent at the start that did not fit wait until places are left; further ones are sent
        // only when others end.
        let waiting = sent - slots;
        let mean_wait = (waiting / requests) * (start.whole + 0.5 * waiting / steady.requests)
            + (requests - sent).max(0.0) / requests * waiting / steady.requests;
        let share = slots / requests;
        let blend = |first: f64, then: f64| first * share + then * (1.0 - share);
        let duration = start.last + later / steady.requests;
        Latency {
            ttft: blend(start.ttft, steady.ttft) + mean_wait,
            tpot: blend(start.tpot, steady.tpot),
            running: steady.running,
            requests: requests / duration,
        }
    }

    pub(super) fn start(&self, cycle: &Cycle, requests: f64) -> Start {
        let lengths = &self.lengths;
        let (tokens_per_step, _) = cycle.yields();
        let lump = cycle.lump(lengths, requests, 0.5 * (requests - 1.0));
        let lumps = (requests * lump.for_each).max(1.0);
        let prompts = lumps * lump.step;
        let front = cycle.fronted(lengths.input);
        let step = |running: f64| cycle.decode_step(running, lengths.context(), Peers::Alike);
        let (all, one) = (step(requests), step(1.0));
        let steps = lengths.after_first() / tokens_per_step;
        // As many decode as have not ended: a step's time is nearly affine in their number, so that
        // what grows with it is paid for the mean answer, and the rest for the longest.
        let last = front
            + prompts
            + steps * (all - one)
            + steps * one * self.length_at(1.0 - 0.5 / requests.max(1.0));
        let mut start = Start {
            ttft: front + prompts * 0.5 * (1.0 + 1.0 / lumps),
            whole: 0.0,
            last,
            tpot: 0.0,
        };
        // Who comes early decodes while others' prompts are computed; short answers see little else.
        for place in PLACES {
            for length in PLACES {
                let own = steps * self.length_at(length);
                let after = (1.0 - place) * (lumps - 1.0);
                let decoding = if cycle.prefills_first() {
                    after * lump.step + own * all
                } else {
                    let beside = after.min(own);
                    beside * lump.step.max(all) + (own - beside) * all
                };
                start.tpot += decoding / (own * tokens_per_step).max(1e-9) / SAMPLES;
                start.whole += decoding / SAMPLES;
            }
        }
        start.whole = (start.ttft + start.whole).min(last.max(start.ttft));
        if steps <= 0.0 {
            start.tpot = all / tokens_per_step;
        }
        start
    }

    /// The length of an answer at this fraction of all, over the mean.
    fn length_at(&self, fraction: f64) -> f64 {
        if self.output_variation <= 0.0 {
            return 1.0;
        }
        let variance = libm::log1p(self.output_variation);
        libm::exp(libm::sqrt(variance) * normal_quantile(fraction) - 0.5 * variance)
    }
}

/// Middles of equal parts of requests, by when they come and by how long their answers are.
const PLACES: [f64; 4] = [0.125, 0.375, 0.625, 0.875];
const SAMPLES: f64 = 16.0;
