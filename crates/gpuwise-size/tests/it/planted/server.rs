//! One replica of a serving engine, followed step by step: requests arrive, wait for cache, are
//! prefilled in chunks beside those that decode. A simple roofline of its own, with figures of its
//! own; nothing of what is judged is used here.

use gpuwise_units::RandomStream;
use std::collections::VecDeque;

/// A model in the few figures that a step needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) parameters: f64,
    pub(crate) layers: f64,
    pub(crate) hidden: f64,
    /// Bytes of cache a token, all ranks.
    pub(crate) cache: f64,
    /// Largest number of tensor-parallel ranks that divides its heads.
    pub(crate) ranks: u32,
}

/// A GPU in the few figures that a step needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silicon {
    pub(crate) name: &'static str,
    pub(crate) bandwidth: f64,
    pub(crate) flops: f64,
    /// Bytes that a program sees.
    pub(crate) memory: f64,
    /// Bytes a second that an all-reduce over so many ranks reaches.
    pub(crate) reduce: [f64; 3],
    /// Seconds of a small all-reduce.
    pub(crate) reduce_latency: f64,
}

/// Requests and their SLO at the 95th percentile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) input: f64,
    pub(crate) output: f64,
    pub(crate) ttft: f64,
    pub(crate) tpot: f64,
}

/// Requests that are followed, and those of them that only warm up.
const REQUESTS: usize = 260;
const WARM: usize = 60;
/// Bytes of a GPU that are neither weights nor cache.
const OTHER: f64 = 3.2e9;

struct Server<'a> {
    model: &'a Model,
    silicon: &'a Silicon,
    ranks: f64,
    /// How fast everything is beside the figures: for margins.
    speed: f64,
}

struct Running {
    context: f64,
    left: f64,
    arrived: f64,
    first: f64,
    index: usize,
}

impl Server<'_> {
    /// Seconds of a step with so many decoding sequences of this context and a chunk of a prompt.
    fn step(&self, decoding: f64, context: f64, chunk: f64, before: f64) -> f64 {
        let Self {
            model,
            silicon,
            ranks,
            ..
        } = self;
        let tokens = decoding + chunk;
        let read = 2.0 * model.parameters / ranks / (silicon.bandwidth * 0.87);
        let multiply = 2.0 * model.parameters * tokens / ranks / (silicon.flops * 0.60);
        let dense = read.max(multiply) + 0.12 * read.min(multiply);
        let cache = context * model.cache / ranks / (silicon.bandwidth * 0.76);
        let scores = 4.0 * model.layers * model.hidden * chunk * (before + chunk / 2.0)
            / ranks
            / (silicon.flops * 0.33);
        let reduce = if *ranks > 1.0 {
            let rate = silicon.reduce[ranks.log2() as usize - 1];
            let bytes = 2.0 * tokens * model.hidden;
            2.0 * model.layers
                * (silicon.reduce_latency + 2.0 * (ranks - 1.0) / ranks * bytes / rate)
        } else {
            0.0
        };
        let launch = model.layers * 4.7e-5 + 2.5e-4 + 1.9e-5 * decoding;
        (dense + cache + scores + reduce + launch) / self.speed
    }

    /// 95th percentiles of time to first token and per token, or nothing where queues only grow.
    fn latencies(&self, asked: &Asked, rate: f64, room: f64) -> Option<(f64, f64)> {
        let mut random = RandomStream::new(11, "arrivals", 0);
        let mut at = 0.0;
        let mut waiting: VecDeque<(usize, f64)> = VecDeque::new();
        let mut due: VecDeque<(usize, f64)> = (0..REQUESTS)
            .map(|index| {
                at -= (1.0 - random.uniform()).ln() / rate;
                (index, at)
            })
            .collect();
        let budget = if self.silicon.memory > 7.0e10 {
            8192.0
        } else {
            2048.0
        };
        let held = asked.input + asked.output;
        let mut running: Vec<Running> = Vec::new();
        let mut prompt: Option<(usize, f64, f64)> = None;
        let (mut firsts, mut paces) = (Vec::new(), Vec::new());
        let mut now = 0.0;
        while paces.len() < REQUESTS {
            while due.front().is_some_and(|(_, at)| *at <= now) {
                waiting.extend(due.pop_front());
            }
            if waiting.len() > REQUESTS / 2 {
                return None;
            }
            let taken = (running.len() + 1) as f64 * held;
            if prompt.is_none() && taken <= room && running.len() < 256 {
                prompt = waiting
                    .pop_front()
                    .map(|(index, at)| (index, at, asked.input));
            }
            if running.is_empty() && prompt.is_none() {
                now = due.front()?.1;
                continue;
            }
            let decoding = running.len() as f64;
            let chunk = prompt.map_or(0.0, |(_, _, left)| left.min(budget - decoding));
            let before = prompt.map_or(0.0, |(_, _, left)| asked.input - left);
            let context: f64 = running.iter().map(|one| one.context).sum();
            now += self.step(decoding, context, chunk, before);
            for one in &mut running {
                one.left -= 1.0;
                one.context += 1.0;
                if one.left < 0.5 && one.index >= WARM {
                    paces.push((now - one.first) / (asked.output - 1.0));
                } else if one.left < 0.5 {
                    paces.push(0.0);
                }
            }
            running.retain(|one| one.left >= 0.5);
            if let Some((index, arrived, left)) = prompt.take() {
                if left - chunk < 0.5 {
                    if index >= WARM {
                        firsts.push(now + 0.015 - arrived);
                    }
                    running.push(Running {
                        context: asked.input,
                        left: asked.output - 1.0,
                        arrived,
                        first: now,
                        index,
                    });
                } else {
                    prompt = Some((index, arrived, left - chunk));
                }
            }
            debug_assert!(running.iter().all(|one| one.arrived <= now));
        }
        let paces = paces.into_iter().filter(|pace| *pace > 0.0).collect();
        Some((high(firsts), high(paces)))
    }
}

/// The 95th percentile.
fn high(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * 95 / 100)
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// The largest rate at which one replica of so many ranks keeps the SLO; 0: at none.
pub(crate) fn capacity(
    model: &Model,
    silicon: &Silicon,
    ranks: u32,
    asked: &Asked,
    speed: f64,
) -> f64 {
    let server = Server {
        model,
        silicon,
        ranks: f64::from(ranks),
        speed,
    };
    let weights = 2.0 * model.parameters / server.ranks;
    let free = silicon.memory * 0.91 - weights - OTHER;
    let room = free / (model.cache / server.ranks);
    if room < asked.input + asked.output {
        return 0.0;
    }
    let kept = |rate: f64| {
        server
            .latencies(asked, rate, room)
            .is_some_and(|(ttft, tpot)| ttft <= asked.ttft && tpot <= asked.tpot)
    };
    let (mut low, mut high) = (0.02, 0.04);
    if !kept(low) {
        return 0.0;
    }
    while kept(high) && high < 1000.0 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..5 {
        let middle = (low * high).sqrt();
        if kept(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
