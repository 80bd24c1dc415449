//! Deployments that are too large, right, or too small, as the step-by-step server says, with what
//! the cheapest sufficient system costs.

use super::server::{Asked, Model, Silicon, capacity};
use gpuwise_domain::offer::{Offer, Terms};
use gpuwise_units::RandomStream;

const fn model(
    name: &'static str,
    parameters: f64,
    layers: f64,
    hidden: f64,
    cache: f64,
    ranks: u32,
) -> Model {
    Model {
        name,
        parameters,
        layers,
        hidden,
        cache,
        ranks,
    }
}

pub(crate) const MODELS: [Model; 6] = [
    model(
        "meta-llama/Llama-3.2-3B",
        3.21e9,
        28.0,
        3072.0,
        114_688.0,
        8,
    ),
    model("Qwen/Qwen2.5-7B", 7.62e9, 28.0, 3584.0, 57_344.0, 4),
    model(
        "meta-llama/Llama-3.1-8B",
        8.03e9,
        32.0,
        4096.0,
        131_072.0,
        8,
    ),
    model("Qwen/Qwen2.5-14B", 14.77e9, 48.0, 5120.0, 196_608.0, 8),
    model("Qwen/Qwen2.5-32B", 32.76e9, 64.0, 5120.0, 262_144.0, 8),
    model(
        "meta-llama/Llama-3.1-70B",
        70.55e9,
        80.0,
        8192.0,
        327_680.0,
        8,
    ),
];

const fn silicon(
    name: &'static str,
    bandwidth: f64,
    flops: f64,
    memory: f64,
    reduce: [f64; 3],
    reduce_latency: f64,
) -> Silicon {
    Silicon {
        name,
        bandwidth: bandwidth * 1e9,
        flops: flops * 1e12,
        memory: memory * 1e9,
        reduce,
        reduce_latency,
    }
}

/// All-reduce rates over 2, 4 and 8 ranks: through the host for the first three, over NVLink for the
/// others.
pub(crate) const GPUS: [Silicon; 6] = [
    silicon("L4", 300.0, 121.0, 23.6, [10e9, 4e9, 1.5e9], 2.5e-5),
    silicon("A10G", 600.0, 70.0, 23.6, [10e9, 4e9, 1.5e9], 2.5e-5),
    silicon("L40S", 864.0, 362.0, 47.6, [18e9, 5e9, 1.5e9], 2.5e-5),
    silicon(
        "A100 SXM4 80GB",
        2039.0,
        312.0,
        85.1,
        [9e10, 9e10, 9e10],
        9e-6,
    ),
    silicon(
        "H100 SXM5 80GB",
        3350.0,
        989.0,
        85.0,
        [1.4e11, 1.4e11, 1.4e11],
        7e-6,
    ),
    silicon(
        "H200 SXM 141GB",
        4800.0,
        989.0,
        150.0,
        [1.4e11, 1.4e11, 1.4e11],
        7e-6,
    ),
];

const fn asked(input: f64, output: f64, ttft: f64, tpot: f64) -> Asked {
    Asked {
        input,
        output,
        ttft,
        tpot,
    }
}

/// Models by their place in [`MODELS`], and what is asked of them.
const SCENARIOS: [(usize, Asked); 14] = [
    (0, asked(500.0, 150.0, 0.6, 0.030)),
    (0, asked(2000.0, 300.0, 2.0, 0.060)),
    (1, asked(1000.0, 200.0, 1.0, 0.040)),
    (1, asked(3000.0, 250.0, 3.0, 0.080)),
    (2, asked(1000.0, 250.0, 1.5, 0.050)),
    (2, asked(2000.0, 300.0, 2.0, 0.025)),
    (2, asked(400.0, 300.0, 1.0, 0.090)),
    (3, asked(1000.0, 200.0, 1.5, 0.060)),
    (3, asked(3000.0, 200.0, 3.0, 0.040)),
    (4, asked(1000.0, 250.0, 2.0, 0.060)),
    (4, asked(2000.0, 200.0, 3.0, 0.100)),
    (5, asked(1000.0, 250.0, 2.0, 0.060)),
    (5, asked(2000.0, 200.0, 4.0, 0.100)),
    (5, asked(500.0, 300.0, 2.0, 0.040)),
];

/// Speeds of the hardware beside its figures under which a truth must be the same to be kept.
const SPEEDS: [f64; 3] = [0.82, 1.0, 1.22];

/// What is true of a planted deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// A system that costs less will do.
    Over,
    /// Nothing that will do costs much less.
    Right,
    /// It does not keep the SLO.
    Under,
}

/// Instances that run now.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) gpu: &'static str,
    pub(crate) instance: String,
    pub(crate) gpus: u32,
    pub(crate) instances: u32,
    pub(crate) price: f64,
}

impl System {
    pub(crate) fn cost(&self) -> f64 {
        self.price * f64::from(self.instances)
    }
}

/// A planted deployment with its truth.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) model: &'static str,
    pub(crate) asked: Asked,
    pub(crate) rate: f64,
    pub(crate) current: System,
    pub(crate) truth: Truth,
    /// What the cheapest sufficient system costs an hour.
    pub(crate) cheapest: f64,
}

/// What each layout of a scenario sustains: by GPU, by ranks 1, 2, 4, 8.
type Table = Vec<[f64; 4]>;

fn table(model: &Model, asked: &Asked, speed: f64) -> Table {
    let of = |silicon: &Silicon| {
        [1, 2, 4, 8].map(|ranks| {
            if ranks > model.ranks {
                0.0
            } else {
                capacity(model, silicon, ranks, asked, speed)
            }
        })
    };
    GPUS.iter().map(of).collect()
}

/// What an instance with so many GPUs of a row sustains at most.
fn of_instance(row: &[f64; 4], gpus: u32) -> f64 {
    let whole = |(power, sustains): (usize, &f64)| f64::from(gpus >> power) * sustains;
    row.iter().enumerate().map(whole).fold(0.0, f64::max)
}

/// The fewest of these instances that bear a rate; `None`: none do.
fn needed(row: &[f64; 4], gpus: u32, rate: f64) -> Option<u32> {
    let sustains = of_instance(row, gpus);
    (sustains > 0.0).then(|| (rate / sustains).ceil() as u32)
}

/// Instances that are rented out with whole GPUs, with the place of their GPU in [`GPUS`].
fn shapes(offers: &[Offer]) -> Vec<(usize, &Offer, f64)> {
    let of = |offer: &'_ Offer| {
        let at = GPUS.iter().position(|silicon| silicon.name == offer.gpu)?;
        Some((at, offer.price(Terms::OnDemand)?.0.as_f64()))
    };
    offers
        .iter()
        .filter(|offer| offer.gpus() >= 1)
        .filter_map(|offer| of(offer).map(|(at, price)| (at, offer, price)))
        .collect()
}

/// So many cases; `margins` keeps only those whose truth does not change with the hardware's speed.
pub(crate) fn cases(seed: u64, count: usize, offers: &[Offer], margins: bool) -> Vec<Case> {
    let shapes = shapes(offers);
    let tables: Vec<Vec<Table>> = SCENARIOS
        .iter()
        .map(|(model, asked)| {
            let speeds = if margins { &SPEEDS[..] } else { &SPEEDS[1..2] };
            speeds
                .iter()
                .map(|speed| table(&MODELS[*model], asked, *speed))
                .collect()
        })
        .collect();
    let mut out = Vec::new();
    let mut entity = 0;
    while out.len() < count {
        entity += 1;
        assert!(entity < 400 * count as u64, "no case of this kind is found");
        let mut random = RandomStream::new(seed, "planted case", entity);
        let scenario = random.below(SCENARIOS.len() as u64) as usize;
        let wanted = [Truth::Over, Truth::Right, Truth::Under][out.len() % 3];
        let (model, asked) = &SCENARIOS[scenario];
        let rate = 0.3 * 300f64.powf(random.uniform());
        let Some((current, cheapest)) = draw(&mut random, &shapes, &tables[scenario], rate, wanted)
        else {
            continue;
        };
        out.push(Case {
            model: MODELS[*model].name,
            asked: *asked,
            rate,
            current,
            truth: wanted,
            cheapest,
        });
    }
    out
}

fn draw(
    random: &mut RandomStream,
    shapes: &[(usize, &Offer, f64)],
    tables: &[Table],
    rate: f64,
    wanted: Truth,
) -> Option<(System, f64)> {
    let cheapest = |table: &Table| -> Option<(System, f64)> {
        let placed = shapes.iter().filter_map(|(at, offer, price)| {
            let instances = needed(&table[*at], offer.gpus(), rate)?;
            let system = System {
                gpu: GPUS[*at].name,
                instance: offer.instance.clone(),
                gpus: offer.gpus(),
                instances,
                price: *price,
            };
            Some((system.cost(), system))
        });
        let (cost, system) = placed.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((system, cost))
    };
    let best: Vec<(System, f64)> = tables.iter().map(cheapest).collect::<Option<_>>()?;
    let (system, cost) = best.get(best.len() / 2)?.clone();
    // The cheapest costs the same whatever the speed, or its saving has no truth.
    if best
        .iter()
        .any(|(_, other)| (other / cost - 1.0).abs() > 0.02)
        || !(0.5..150.0).contains(&cost)
    {
        return None;
    }
    if wanted == Truth::Right {
        return Some((system, cost));
    }
    let (at, offer, price) = &shapes[random.below(shapes.len() as u64) as usize];
    let instances = 1 + random.below(3) as u32;
    let current = System {
        gpu: GPUS[*at].name,
        instance: offer.instance.clone(),
        gpus: offer.gpus(),
        instances,
        price: *price,
    };
    let sustains =
        |table: &Table| of_instance(&table[*at], offer.gpus()) * f64::from(instances) >= rate;
    let kept = match wanted {
        Truth::Over => tables.iter().all(sustains) && current.cost() >= 1.25 * cost,
        _ => !tables.iter().any(sustains),
    };
    kept.then_some((current, cost))
}
