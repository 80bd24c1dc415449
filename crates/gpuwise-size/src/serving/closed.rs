//! A closed loop: a fixed number of concurrent requests.

use super::{
    Cycle, Lengths,
    flow::{Arrivals, Flow, Gather},
};

/// Concurrent requests on one attention group, and their lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedLoop {
    pub concurrency: f64,
    pub lengths: Lengths,
    /// Sequences that fit the cache and the engine's limit.
    pub capacity: f64,
    /// Whether all requests have one length, so that those that start together end together.
    pub one_length: bool,
    /// How the engine gathers requests before it computes their prompts.
    pub gather: Gather,
    /// Squared coefficient of variation of answers' lengths, taken as log-normal.
    pub output_variation: f64,
    /// Requests of the whole run, where it is no longer than that: it starts with all at once and
    /// ends with fewer and fewer.
    pub requests: Option<f64>,
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

/// Requests that started together end, and so arrive, near each other: in round r of a run over the
/// share `first · √r` of a cycle, because the sum of r lengths spreads with √r.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ArrivalBunching {
    first: f64,
    rounds: f64,
}

/// How softly prompts begin to queue as they come to fill the time over which they arrive.
const SOFT: f64 = 0.1;

impl ArrivalBunching {
    /// Requests that have long forgotten when they started.
    const NONE: Self = Self {
        first: 1.0,
        rounds: 1.0,
    };

    /// In a run of so many rounds, the first of which starts together.
    pub(super) fn of_run(first: f64, rounds: f64) -> Self {
        Self {
            first,
            rounds: rounds.max(1.0),
        }
    }

    fn spread(self) -> f64 {
        (self.first * libm::sqrt(0.5 * (1.0 + self.rounds))).min(1.0)
    }

    /// The share of a cycle that prompts queue for longer than they arrive, where they take the share
    /// `busy` of it: the mean over rounds, by three of them.
    fn at(self, busy: f64) -> f64 {
        if self.first >= 1.0 {
            return 0.0;
        }
        let last = (self.rounds - 1.0).max(1.0);
        let of = |round: f64| {
            let over = (busy - (self.first * libm::sqrt(round)).min(1.0)) / SOFT;
            SOFT * if over > 30.0 {
                over
            } else {
                libm::log1p(libm::exp(over))
            }
        };
        (of(1.0) + of(0.5 * (1.0 + last)) + of(last)) / 3.0
    }
}

/// Share of steps' prompt tokens from which prompts fill them.
const SATURATED: f64 = 0.8;
/// Steps of the search for the number that decode, and how near it comes.
const SEARCH: usize = 60;
const NEAR: f64 = 1e-7;

impl ClosedLoop {
    /// A loop that goes on for ever, of requests of this mean length that start at different times.
    pub fn endless(concurrency: f64, lengths: Lengths, capacity: f64) -> Self {
        Self {
            concurrency,
            lengths,
            capacity,
            one_length: false,
            gather: Gather::NONE,
            output_variation: 0.0,
            requests: None,
        }
    }

    /// Means over the run, or of the steady state where it has no end.
    pub fn solve(&self, cycle: &Cycle) -> Latency {
        let latency = match self.requests {
            Some(requests) => self.run_of(requests.max(1.0), cycle),
            None => self.steady(cycle, ArrivalBunching::NONE),
        };
        cycle.as_waited(latency, &self.lengths)
    }

    /// Requests that are in the engine; others wait before it.
    pub(super) fn slots(&self) -> f64 {
        self.concurrency.min(self.capacity).max(1.0)
    }

    /// The steady state of requests that meet as `crowding` says.
    ///
    /// Little's law closes the loop: those that decode, and those whose prompts wait or are computed,
    /// are all there are.
    pub(super) fn steady(&self, cycle: &Cycle, crowding: ArrivalBunching) -> Latency {
        if self.one_length && cycle.prefills_first() && self.lengths.after_first() >= 1e-6 {
            return self.in_step(cycle);
        }
        let slots = self.slots();
        let life = if self.lengths.after_first() < 1e-6 {
            self.prompts_only(cycle)
        } else {
            let (flow, decodes) = self.balanced(cycle, crowding);
            let life = slots / flow.rate.max(self.with_fewer(cycle, crowding, &flow));
            let answer = self.lengths.after_first() * flow.tpot;
            let least = slots * cycle.least(&self.lengths).work;
            return self.waited(
                life.max(least),
                Latency {
                    ttft: (life.max(least) - answer).max(0.0),
                    tpot: flow.tpot,
                    running: decodes,
                    requests: 0.0,
                },
            );
        };
        let life = life.max(slots * cycle.least(&self.lengths).work);
        let tpot = cycle.decode(1.0, self.lengths.context());
        self.waited(
            life,
            Latency {
                ttft: life,
                tpot,
                running: slots,
                requests: 0.0,
            },
        )
    }

    /// Requests of one length on an engine that computes prompts before any answer goes on: they start
    /// to decode together, end together, and so their next prompts come together, round after round.
    fn in_step(&self, cycle: &Cycle) -> Latency {
        let slots = self.slots();
        let round = self.start(cycle, slots);
        self.waited(
            round.last.max(slots * cycle.least(&self.lengths).work),
            Latency {
                ttft: round.ttft,
                tpot: round.tpot,
                running: slots,
                requests: 0.0,
            },
        )
    }

    /// Requests a second of a quarter of the slots, where prompts fill steps: more that wait do not
    /// keep an engine from what it does for fewer. 0 where they do not.
    fn with_fewer(&self, cycle: &Cycle, crowding: ArrivalBunching, flow: &Flow) -> f64 {
        let slots = self.slots();
        if flow.busy < SATURATED || slots < 2.0 {
            return 0.0;
        }
        let fewer = Self {
            concurrency: (0.25 * slots).max(1.0),
            ..*self
        };
        fewer.steady(cycle, crowding).requests
    }

    /// A latency in the engine with the wait of those that do not fit before it.
    fn waited(&self, life: f64, inside: Latency) -> Latency {
        let slots = self.slots();
        let requests = slots / life;
        Latency {
            ttft: inside.ttft + (self.concurrency - slots).max(0.0) / requests,
            requests,
            ..inside
        }
    }

    /// Seconds of a request in the engine where answers are of one token.
    fn prompts_only(&self, cycle: &Cycle) -> f64 {
        let slots = self.slots();
        let lump = cycle.lump(&self.lengths, slots, 0.0);
        let alone = cycle.fronted(self.lengths.input) + lump.service();
        alone.max(slots * lump.step * lump.for_each)
    }

    /// The flow whose requests are as many as there are slots, and how many of them decode.
    fn balanced(&self, cycle: &Cycle, crowding: ArrivalBunching) -> (Flow, f64) {
        let slots = self.slots();
        let others = (slots - 1.0) / slots;
        let arrivals = if self.one_length {
            Arrivals::Together(slots)
        } else {
            Arrivals::Freed(crowding.spread(), self.gather)
        };
        let front = cycle.fronted(self.lengths.input);
        let excess = |decodes: f64| {
            let flow = cycle.flow(&self.lengths, decodes, others, arrivals);
            let crowd = 0.5 * slots / flow.rate * crowding.at(flow.busy) * others;
            let queue = flow.queue(0.5).min(0.5 * slots * flow.full) * others;
            let queue = if flow.busy >= 1.0 {
                f64::INFINITY
            } else {
                queue
            };
            let first = front
                + cycle.admission(&flow, decodes) * others
                + (queue + crowd)
                + flow.lump.service();
            // While one request lives the prompts of all are computed once, and its own answer.
            let answer = self.lengths.after_first();
            let engine = answer * flow.decode + slots * flow.lump.adds(1.0);
            let first = first.max(engine - answer * flow.tpot);
            (decodes + flow.rate * first - slots, flow)
        };
        // The Illinois variant of the false position: the excess rises with the number.
        let (mut low, mut high) = (0.0, slots);
        let (mut below, mut above) = (-slots, excess(slots).0);
        let mut side = 0;
        let mut middle = slots;
        for _ in 0..SEARCH {
            middle = if above.is_finite() {
                (low * above - high * below) / (above - below)
            } else {
                0.5 * (low + high)
            };
            let (here, flow) = excess(middle);
            if here.abs() < NEAR * slots || high - low < NEAR * slots {
                return (flow, middle);
            }
            if here > 0.0 {
                (high, above) = (middle, here);
                if side == 1 {
                    below *= 0.5;
                }
                side = 1;
            } else {
                (low, below) = (middle, here);
                if side == -1 {
                    above *= 0.5;
                }
                side = -1;
            }
        }
        (cycle.flow(&self.lengths, middle, others, arrivals), middle)
    }
}
