//! A run that ends: it starts with as many requests at once as are kept in flight, goes on as a
//! closed loop, and ends with fewer and fewer. Where all are sent at once, that is all there is.

use super::{ClosedLoop, Cycle, Latency};
use crate::speed::Peers;

/// The first requests of a run, which all arrive at once.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// Mean seconds to first token.
    ttft: f64,
    /// Mean seconds to the last token.
    whole: f64,
    /// Seconds until the last of them ends.
    last: f64,
    tpot: f64,
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
        let steady = loop_of.steady(cycle, self.spread_of(requests / sent, cycle));
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

    /// Over which share of a cycle the requests of a run arrive that started together, in its mean.
    fn spread_of(&self, rounds: f64, cycle: &Cycle) -> f64 {
        if self.one_length {
            return 1.0;
        }
        // Ends drift apart with the square root of the rounds.
        (cycle.scatter * libm::sqrt(rounds / 10.0)).clamp(0.05, 1.0)
    }

    fn start(&self, cycle: &Cycle, requests: f64) -> Start {
        let lengths = &self.lengths;
        let (tokens_per_step, _) = cycle.yields();
        let lump = cycle.lump(lengths, requests, 0.5 * (requests - 1.0));
        let lumps = (requests * lump.for_each).max(1.0);
        let prompts = lumps * lump.step;
        let front = cycle.fronted(lengths.input);
        let decode = cycle.decode_step(requests, lengths.context(), Peers::Alike);
        let steps = lengths.after_first() / tokens_per_step;
        // While prompts of others are computed, those before them decode, if steps mix both.
        let gained = if cycle.prefills_first() {
            0.0
        } else {
            (0.5 * (lumps - 1.0)).min(steps)
        };
        let ttft = front + prompts * 0.5 * (1.0 + 1.0 / lumps);
        let last = front + prompts + steps * decode;
        let whole = (front + prompts + (steps - gained) * decode)
            .max(ttft)
            .min(last);
        let tpot = if lengths.after_first() > 0.0 {
            (whole - ttft) / lengths.after_first()
        } else {
            decode / tokens_per_step
        };
        Start {
            ttft,
            whole,
            last,
            tpot: tpot.max(cycle.decode(1.0, lengths.context())),
        }
    }
}
