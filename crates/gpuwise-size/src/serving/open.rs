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
    pub lengths: Lengths,
    /// Squared coefficient of variation of prompt lengths.
    pub input_variation: f64,
    /// Sequences that fit the cache and the engine's limit.
    pub capacity: f64,
    /// Requests of the run, where it ends: beyond the largest rate they queue for as long.
    pub requests: Option<f64>,
}

/// What one group has in common with others behind a router that sends each request to the group with
/// the fewest, and how its answers differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouterPeers {
    pub groups: f64,
    /// Squared coefficient of variation of answers' lengths.
    pub output_variation: f64,
}

impl Default for RouterPeers {
    fn default() -> Self {
        Self {
            groups: 1.0,
            output_variation: 0.0,
        }
    }
}

/// Mean latencies and what is needed for their percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quantiles {
    pub mean: Latency,
    /// Mean wait for other prompts and for a place, part of the mean time to first token.
    pub wait: f64,
    /// Mean wait for a place in the KV cache, part of the wait.
    pub place: f64,
    /// Share of steps that carry a prompt, and how much longer they are.
    pub mixed_share: f64,
    /// Seconds that a prompt adds to a step.
    pub mixed_extra: f64,
    /// Seconds of a step without prompts.
    pub decode: f64,
    /// Standard deviation of time per token over requests, as a share of the mean: by how many decode and how many
    /// prompts come while one does.
    pub tpot_spread: f64,
    /// Share of the largest sustainable rate.
    pub load: f64,
    /// Whether the rate can be sustained.
    pub stable: bool,
}

/// The most that a group sustains.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Largest {
    /// Requests a second.
    pub rate: f64,
    /// Sequences that decode at it.
    pub decodes: f64,
}

/// Of the prompt tokens that steps can compute, those that can be asked for without queues that grow.
const BUSIEST: f64 = 0.98;
/// Steps of a bisection.
const SEARCH: usize = 40;
const NEAR: f64 = 1e-5;

impl OpenLoop {
    fn flow(&self, cycle: &Cycle, decodes: f64) -> Flow {
        let arrivals = Arrivals::Open(self.input_variation);
        cycle.flow(&self.lengths, decodes, 1.0, arrivals)
    }

    /// The largest rate that one group sustains.
    pub fn largest_rate(&self, cycle: &Cycle) -> f64 {
        self.largest(cycle).rate
    }

    /// That rate, and how many sequences decode at it, whatever the rate of this load is.
    pub fn largest(&self, cycle: &Cycle) -> Largest {
        let found = self.largest_of_flow(cycle);
        // The operations of a request take their time at what silicon reaches, whatever the flow says.
        let most = 1.0 / cycle.least(&self.lengths).work;
        Largest {
            rate: found.rate.min(most),
            ..found
        }
    }

    fn largest_of_flow(&self, cycle: &Cycle) -> Largest {
        let capacity = self.capacity.max(1.0);
        if self.lengths.after_first() < 1e-6 {
            let lump = cycle.lump(&self.lengths, capacity, 0.0);
            return Largest {
                rate: BUSIEST / (lump.step * lump.for_each),
                decodes: 0.0,
            };
        }
        // A waiting or entering prompt holds a place as well.
        let held = |decodes: f64, flow: &Flow| {
            decodes + flow.rate * (flow.lump.service() + flow.queue(0.5).min(flow.full))
        };
        // By how much it is more than steps compute or places hold: above 0 where it is.
        let over = |decodes: f64| {
            let flow = self.flow(cycle, decodes);
            let held = held(decodes, &flow) / capacity;
            ((flow.busy / BUSIEST).max(held) - 1.0, flow.rate)
        };
        let (mut above, rate) = over(capacity);
        if above <= 0.0 {
            return Largest {
                rate,
                decodes: capacity,
            };
        }
        let mut found = Largest::default();
        let (mut low, mut high, mut below) = (0.0, capacity, -1.0);
        let mut side = 0;
        for _ in 0..SEARCH {
            if high - low < 1e-4 * high {
                break;
            }
            // The Illinois variant of the false position; what leaps is halved.
            let middle = if above < 4.0 {
                (low * above - high * below) / (above - below)
            } else {
                0.5 * (low + high)
            };
            let (here, rate) = over(middle);
            if here <= 0.0 {
                found = Largest {
                    rate,
                    decodes: middle,
                };
                (low, below) = (middle, here);
                if side == -1 {
                    above *= 0.5;
                }
                side = -1;
                if here > -1e-4 {
                    break;
                }
            } else {
                (high, above) = (middle, here);
                if side == 1 {
                    below *= 0.5;
                }
                side = 1;
            }
        }
        found
    }

    /// The number of decoding sequences that a sustainable rate brings (Little's law): as many as
    /// arrive while one decodes.
    fn decoding(&self, cycle: &Cycle, most: f64, load: f64) -> f64 {
        let answer = self.lengths.after_first();
        let excess = |decodes: f64| self.rate * answer * self.flow(cycle, decodes).tpot - decodes;
        // At the largest rate so many decode as long as the same flow says.
        let (mut low, mut high) = (0.0, most);
        let (mut above, mut below) = (excess(1e-9), most * (load - 1.0));
        let mut side = 0;
        let mut middle = 0.0;
        for _ in 0..SEARCH {
            // The Illinois variant of the false position: the excess falls.
            middle = (low * below - high * above) / (below - above);
            let here = excess(middle);
            if here.abs() < NEAR * middle.max(1e-3) || high - low < NEAR * high {
                return (middle + here).clamp(0.0, most);
            }
            if here > 0.0 {
                (low, above) = (middle, here);
                if side == 1 {
                    below *= 0.5;
                }
                side = 1;
            } else {
                (high, below) = (middle, here);
                if side == -1 {
                    above *= 0.5;
                }
                side = -1;
            }
        }
        middle
    }

    /// Latencies at the rate. Beyond the largest rate a run of so many requests queues for half of the
    /// time by which it takes longer than it lasts, on average; without an end it is called unstable
    /// and gets the latency of the largest rate.
    pub fn solve(&self, cycle: &Cycle) -> Quantiles {
        self.solve_among(cycle, &RouterPeers::default())
    }

    /// The same of one of several groups among which a router chooses.
    pub fn solve_among(&self, cycle: &Cycle, among: &RouterPeers) -> Quantiles {
        self.solve_below(cycle, among, self.largest(cycle))
    }

    /// The same where the largest rate is known.
    pub fn solve_below(&self, cycle: &Cycle, among: &RouterPeers, largest: Largest) -> Quantiles {
        let Largest {
            rate: largest,
            decodes: most,
        } = largest;
        let load = self.rate / largest.max(1e-12);
        let rate = self.rate.min(largest);
        if self.lengths.after_first() < 1e-6 {
            let lump = cycle.lump(&self.lengths, 1.0, 0.0);
            let busy = (rate / largest * BUSIEST).min(BUSIEST);
            let wait =
                busy / (1.0 - busy) * lump.service() * self.variability(among) + self.grown(rate);
            let found = Quantiles {
                mean: Latency {
                    ttft: cycle.fronted(self.lengths.input) + lump.service() + wait,
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
            return found.as_waited(cycle, &self.lengths);
        }
        let decodes = if load < 1.0 {
            self.decoding(cycle, most, load)
        } else {
            most
        };
        let flow = self.flow(cycle, decodes.max(1e-9));
        let found = self.state(cycle, among, largest, (decodes, &flow));
        found.as_waited(cycle, &self.lengths)
    }

    /// The load under which so many sequences decode, in requests a second, and latencies at it; `None`
    /// where answers end with their first token, and nothing decodes.
    pub(crate) fn decoding_so_many(
        &self,
        cycle: &Cycle,
        among: &RouterPeers,
        largest: Largest,
        decodes: f64,
    ) -> Option<(f64, Quantiles)> {
        let answer = self.lengths.after_first();
        if answer < 1e-6 {
            return None;
        }
        let flow = self.flow(cycle, decodes);
        let rate = decodes / (answer * flow.tpot);
        let at = Self { rate, ..*self };
        let found = at.state(cycle, among, largest.rate, (decodes, &flow));
        Some((rate, found.as_waited(cycle, &self.lengths)))
    }

    /// Latencies where so many sequences decode.
    fn state(
        &self,
        cycle: &Cycle,
        among: &RouterPeers,
        largest: f64,
        (decodes, flow): (f64, &Flow),
    ) -> Quantiles {
        let load = self.rate / largest.max(1e-12);
        let rate = self.rate.min(largest);
        let variability = self.variability(among);
        let front = cycle.fronted(self.lengths.input);
        let (mixed_share, mixed_extra) = flow.lump.hits(flow.prompts);
        let queue = flow.wait(variability).min(1e6);
        let answer = self.lengths.after_first();
        // Short answers spread what lies behind a prompt over fewer tokens.
        let short = answer / (1.0 + among.output_variation);
        // What comes while a replica computes prompts goes to others.
        let replicas = among.groups / f64::from(cycle.steps.attention_groups());
        let behind = flow.behind(queue, short) / replicas.max(1.0);
        let life = flow.lump.service() + queue + answer * (flow.tpot + behind);
        let place = self.place(life * rate, life, among);
        // Waiting for other prompts and for places is as good as exponential; steps have an end.
        let wait = queue + place + self.grown(rate);
        let admission = cycle.admission(flow, decodes);
        let tpot_spread = self.tpot_spread(cycle, decodes, flow, (among, replicas));
        Quantiles {
            mean: Latency {
                ttft: front + flow.lump.service() + admission + wait,
                tpot: flow.tpot + behind,
                running: rate * self.lengths.after_first() * (flow.tpot + behind),
                requests: rate,
            },
            wait,
            place,
            mixed_share,
            mixed_extra,
            decode: flow.decode,
            tpot_spread,
            load,
            stable: load < 1.0,
        }
    }
}

/// How much more decoding sequences lengthen a step: looked at with so many more.
const MORE: f64 = 0.1;
/// Prompts take this many times what decoding does, at most, before what comes more waits and lengthens no step.
const MOST_PROMPTS: f64 = 3.0;

impl OpenLoop {
    /// Standard deviation of time per token over requests, as a share of the mean.
    ///
    /// While a request decodes as many others come as decode beside it (Little's law), Poisson in number: their prompts
    /// stretch all steps by r = ρ ÷ (1 − ρ), ρ the share of time that prompts take, and a short answer averages over
    /// fewer of them. The number n that decodes swings by more than that of independent requests, since each more of
    /// them holds the others longer: with u the elasticity of a step to n its variance is n ÷ (1 − u), and prompts add
    /// to it. A request lasts about as long as such a swing, and sees most of it. Contexts differ, and so does what
    /// each adds to a step.
    fn tpot_spread(
        &self,
        cycle: &Cycle,
        decodes: f64,
        flow: &Flow,
        (among, replicas): (&RouterPeers, f64),
    ) -> f64 {
        if decodes < 1e-3 {
            return 0.0;
        }
        let context = self.lengths.context();
        let more = cycle.decode(decodes * (1.0 + MORE), context);
        let elasticity = ((more / flow.decode - 1.0) / MORE).clamp(0.0, 0.95);
        let rest = 1.0 - elasticity;
        let seen = 2.0 * (rest - 1.0 + libm::exp(-rest)) / (rest * rest);
        let prompts = (flow.tpot / flow.decode - 1.0).clamp(0.0, MOST_PROMPTS);
        let of_prompts = prompts * prompts * (1.0 + self.input_variation) * self.burstiness;
        let length = self.lengths.input / context.max(1.0);
        let contexts = 1.0 + self.input_variation * length * length;
        let swings = self.burstiness.max(1.0) + 0.5 * of_prompts;
        let of_number = elasticity * elasticity * contexts * seen / rest * swings;
        // A router evens out what several replicas see.
        let beside = decodes * replicas.max(1.0);
        let short = 1.0 + among.output_variation;
        libm::sqrt((of_prompts * short + of_number) / beside)
    }
}

impl OpenLoop {
    /// That of gaps and of prompt lengths, as queues feel it.
    fn variability(&self, among: &RouterPeers) -> f64 {
        let gaps = self.burstiness / libm::sqrt(among.groups);
        0.5 * (gaps + self.input_variation)
    }

    /// Mean seconds by which a run of so many requests queues longer, where this is served of it.
    fn grown(&self, rate: f64) -> f64 {
        let run = self.requests.unwrap_or(0.0);
        0.5 * run * (1.0 / rate - 1.0 / self.rate).max(0.0)
    }

    /// Mean seconds that requests wait for a place, where so many are held (Sakasegawa 1977): few
    /// places are all taken now and then, long before they are on average.
    fn place(&self, held: f64, life: f64, among: &RouterPeers) -> f64 {
        // What holds a place is a number of tokens: requests of unlike length fill the cache as fewer alike do.
        let context = self.lengths.context().max(1.0);
        let length = (self.lengths.input + self.lengths.cached) / context;
        let unlike = 1.0 + self.input_variation * length * length;
        let places = (self.capacity.max(1.0) / unlike).max(1.0) * among.groups;
        let taken = (held / self.capacity.max(1.0)).min(BUSIEST);
        let all = libm::pow(taken, libm::sqrt(2.0 * (places + 1.0)) - 1.0);
        let variability = 0.5 * (self.burstiness + among.output_variation);
        all / (places * (1.0 - taken)) * life * variability
    }
}

impl Quantiles {
    /// With the time to first token, and the wait that is part of it, as the user's own rows say.
    fn as_waited(self, cycle: &Cycle, lengths: &Lengths) -> Self {
        let mean = cycle.as_waited(self.mean, lengths);
        let factor = mean.ttft / self.mean.ttft.max(f64::MIN_POSITIVE);
        Self {
            mean,
            wait: self.wait * factor,
            place: self.place * factor,
            ..self
        }
    }

    /// Time to first token at a fraction (0.95 for p95): the wait is nearly exponential.
    pub fn ttft(&self, fraction: f64) -> f64 {
        let fixed = self.mean.ttft - self.wait;
        fixed + self.wait * libm::log(1.0 / (1.0 - fraction))
    }

    /// Time per output token at a fraction: requests that meet more prompts, and more others, take longer.
    pub fn tpot(&self, fraction: f64, output: f64) -> f64 {
        let hits = self.mixed_share * output.max(1.0);
        let spread = self.mixed_extra * libm::sqrt(hits.max(0.0)) / output.max(1.0);
        let spread = spread.max(self.tpot_spread * self.mean.tpot);
        self.mean.tpot + spread * normal_quantile(fraction)
    }
}

/// The standard normal quantile, to 4.5e-4 (Abramowitz and Stegun, 26.2.23).
pub fn normal_quantile(fraction: f64) -> f64 {
    let p = fraction.clamp(1e-9, 1.0 - 1e-9);
    let tail = if p < 0.5 { p } else { 1.0 - p };
    let t = libm::sqrt(-2.0 * libm::log(tail));
    let value = t
        - (2.515517 + t * (0.802853 + t * 0.010328))
            / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    if p < 0.5 { -value } else { value }
}
