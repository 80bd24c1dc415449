//! Prefill and decode on workers apart: a prompt queues for a prefill worker, its cache moves over the
//! link, and its answer decodes among others whose prompts are computed elsewhere.

use super::{Cycle, Latency, Lengths};

/// Both pools under a load.
#[derive(Debug, Clone, Copy)]
pub struct DisaggregatedLoad<'a> {
    pub prefill: &'a Cycle,
    pub decode: &'a Cycle,
    /// Attention groups of all prefill workers.
    pub prefill_groups: f64,
    /// Attention groups of all decode workers.
    pub decode_groups: f64,
    /// Seconds that a prompt's cache takes over the link.
    pub transfer: f64,
    pub lengths: Lengths,
    /// Sequences that fit on a decode group.
    pub capacity: f64,
    /// Half of the squared variations of gaps and of prompt lengths.
    pub variability: f64,
}

/// Prefill workers are asked for no more than this share of what they compute.
const BUSIEST: f64 = 0.98;

/// What prompts take of prefill workers at a rate.
#[derive(Debug, Clone, Copy)]
struct Prompts {
    /// Seconds of the step that a prompt is in.
    service: f64,
    /// Mean seconds before it.
    wait: f64,
    /// Share of the prompts that the workers can compute at most.
    busy: f64,
    /// Seconds of a worker for each prompt where steps are full.
    least: f64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rated {
    pub(crate) latency: Latency,
    /// Seconds that a prompt waits for a worker.
    pub(crate) wait: f64,
    /// Share of the prefill workers' time.
    pub(crate) busy: f64,
    /// Whether both pools keep up.
    pub(crate) stable: bool,
}

impl DisaggregatedLoad<'_> {
    /// What prefill workers do at so many requests a second of one attention group.
    fn prompts(&self, rate: f64) -> Prompts {
        let (input, cached) = (self.lengths.input, self.lengths.cached);
        let alone = self.prefill.prefill_alone(input, cached);
        let most = libm::floor(self.prefill.budget() / input.max(1.0)).max(1.0);
        let full = self.prefill.prefill(most, input, cached).max(alone);
        // Those that arrive while a step is under way are computed together in the next.
        let (met, service) = if most > 1.0 {
            let further = (full - alone) / (most - 1.0);
            let met = if rate * further < 1.0 {
                (rate * (alone - further) / (1.0 - rate * further)).clamp(1.0, most)
            } else {
                most
            };
            (met, alone + (met - 1.0) * further)
        } else {
            (1.0, full.min(alone))
        };
        let least = (full / most).min(alone);
        let busy = rate * least;
        // Mean wait of a queue with several servers (Sakasegawa 1977), scaled by variability (Kingman);
        // where prompts are computed together the next step takes all that wait.
        let exponent = libm::sqrt(2.0 * (self.prefill_groups + 1.0)) - 1.0;
        let within = busy.min(BUSIEST);
        let under_way = (rate * service / met).min(1.0);
        let wait = libm::pow(under_way, exponent) / (self.prefill_groups * (1.0 - within))
            * service
            * self.variability;
        Prompts {
            service,
            wait,
            busy,
            least,
        }
    }

    /// Latencies at so many requests a second of one decode group.
    pub(crate) fn at_rate(&self, rate: f64) -> Rated {
        let Prompts {
            service,
            wait,
            busy,
            ..
        } = self.prompts(rate * self.decode_groups / self.prefill_groups);
        let context = self.lengths.context();
        let answer = self.lengths.after_first();
        // Little's law on the decode side: the number rises with the time that it makes tokens take.
        let tpot = |running: f64| self.decode.decode(1.0 + running, context);
        let mut running = 0.0f64;
        for _ in 0..60 {
            let next = (rate * answer * tpot(running)).min(2.0 * self.capacity);
            if (next - running).abs() < 1e-6 * running.max(1e-3) {
                break;
            }
            running = 0.5 * (running + next);
        }
        let each = tpot(running);
        Rated {
            latency: Latency {
                // The cache arrives while a step is under way.
                ttft: self.prefill.fronted(self.lengths.input) + service + wait + self.handed(),
                tpot: each,
                running,
                requests: rate,
            },
            wait,
            busy,
            stable: busy < BUSIEST && running < self.capacity,
        }
    }

    /// Means over a run of so many rounds, the first of which starts with all requests at once.
    pub fn run_of(&self, requests: f64, rounds: f64) -> Latency {
        let steady = self.steady(requests);
        let share = 1.0 / rounds.max(1.0);
        let first = self.start(requests).max(steady.ttft);
        self.as_waited(Latency {
            ttft: first * share + steady.ttft * (1.0 - share),
            ..steady
        })
    }

    /// A latency with its time to first token as the user's own rows say.
    pub(crate) fn as_waited(&self, latency: Latency) -> Latency {
        self.decode.as_waited(latency, &self.lengths)
    }

    /// Mean seconds to first token where so many requests for each decode group come at once: each
    /// prefill worker computes its share of the prompts one after the other.
    fn start(&self, requests: f64) -> f64 {
        let (input, cached) = (self.lengths.input, self.lengths.cached);
        let prompts = (requests * self.decode_groups / self.prefill_groups).max(1.0);
        let all = self.prefill.prefill(prompts, input, cached);
        let one = self.prefill.prefill(1.0, input, cached).min(all);
        self.prefill.fronted(input) + 0.5 * (all + one) + self.handed()
    }

    /// Seconds from a prefill worker to a decode worker.
    fn handed(&self) -> f64 {
        self.transfer + self.prefill.hand_over()
    }

    /// Latencies with so many concurrent requests for each decode group.
    pub fn in_flight(&self, requests: f64) -> Latency {
        self.as_waited(self.steady(requests))
    }

    fn steady(&self, requests: f64) -> Latency {
        let answer = self.lengths.after_first();
        let least = self.prompts(0.0).least;
        let most = BUSIEST * self.prefill_groups / (self.decode_groups * least);
        let life = |one: &Rated| one.latency.ttft + answer * one.latency.tpot;
        let (mut low, mut high) = (0.0, most);
        let mut found = self.at_rate(0.5 * most);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            found = self.at_rate(middle);
            let inside = middle * life(&found);
            if (inside - requests).abs() < 1e-5 * requests {
                break;
            }
            if inside > requests || found.latency.running > self.capacity {
                high = middle;
            } else {
                low = middle;
            }
        }
        // Who is not in a worker waits for one.
        let life = requests / found.latency.requests;
        Latency {
            ttft: (life - answer * found.latency.tpot).max(found.latency.ttft),
            ..found.latency
        }
    }
}
