//! What a plan is made of: one over the whole catalogue, one candidate, its memory, a decode step,
//! and both loops. Constants are those before any data, so that a refit does not move timings.

#[path = "../tests/it/fixture.rs"]
#[expect(dead_code, reason = "tests take what this leaves")]
mod fixture;

use divan::{Bencher, black_box};
use fixture::{catalogue, engine_facts, model, prior};
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::{Engine, EngineKind},
    facts::EngineFacts,
    gpu::Device,
    layout::Layout,
    model::Architecture,
    precision::CacheFormat,
    workload::{LengthDistribution, Lengths, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_size::{
    engines,
    knowledge::{Corrections, Knowledge},
    memory,
    search::{self, Choices, Fixed, Request},
    serving::{self, ClosedLoop, Cycle, OpenLoop},
    setup::{Setup, Weights},
    speed::{Batch, StepModel, StepShape},
};
use gpuwise_units::{PerSecond, Percentile, Seconds, Tokens};
use std::sync::Arc;

/// Dense, mixture of experts, and latent attention with many experts.
const MODELS: [&str; 3] = [
    "meta-llama/Llama-3.1-70B-Instruct",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3",
];
const INPUT: u32 = 2000;
const OUTPUT: u32 = 300;
const LENGTHS: serving::Lengths = serving::Lengths {
    input: INPUT as f64,
    cached: 0.0,
    output: OUTPUT as f64,
};

fn main() {
    divan::main();
}

/// Everything that a request borrows.
struct Case {
    architecture: Architecture,
    catalogue: Catalogue,
    knowledge: Knowledge,
    facts: EngineFacts,
    workload: Workload,
    choices: Choices,
}

impl Case {
    fn new(name: &str) -> Self {
        Self {
            architecture: model(name),
            catalogue: catalogue(),
            knowledge: prior(),
            facts: engine_facts("vllm"),
            workload: workload(),
            choices: Choices::usual(Engine::newest(EngineKind::Vllm)),
        }
    }

    fn plan(&self) -> usize {
        let sizing = search::plan(&Request {
            name: "bench/model".into(),
            origin: "catalogue".into(),
            architecture: &self.architecture,
            workload: &self.workload,
            catalogue: &self.catalogue,
            knowledge: &self.knowledge,
            facts: Some(&self.facts),
            engines: &[],
            draft: None,
            choices: self.choices.clone(),
        });
        sizing.ranked.len()
    }

    /// Eight H100s as one replica, weights as published.
    fn setup(&self) -> Setup<'_> {
        let gpu = self.catalogue.gpu("H100 SXM5 80GB").expect("an H100");
        let device = Device::whole(gpu);
        let engine = self.choices.engine.clone();
        Setup {
            architecture: &self.architecture,
            device,
            settings: engines::model(engine.kind).settings(
                &engine,
                &device,
                Layout::tensor(8),
                None,
            ),
            engine,
            bucket: gpuwise_domain::engine::VersionBucket::new("vllm"),
            layout: Layout::tensor(8),
            weights: Weights::published(&self.architecture),
            cache: CacheFormat::HALF,
            draft: None,
            adapters: None,
            corrections: Corrections::default(),
        }
    }

    fn cycle(&self) -> Cycle {
        let setup = self.setup();
        let shape = Arc::new(StepShape::new(&setup));
        Cycle::new(&setup, shape, &self.knowledge.serving)
    }
}

fn workload() -> Workload {
    let target = |seconds| {
        Some(Target {
            percentile: Some(Percentile::P95),
            at_most: Seconds::new(seconds),
        })
    };
    Workload {
        traffic: Traffic::Open {
            rate: PerSecond::new(8.0),
            burstiness: 1.0,
        },
        lengths: Lengths {
            input: LengthDistribution::fixed(Tokens(INPUT.into())),
            output: LengthDistribution::fixed(Tokens(OUTPUT.into())),
        },
        prefix_hit: 0.0,
        slo: Slo {
            ttft: target(1.0),
            tpot: target(0.04),
            ..Slo::default()
        },
        limits: Limits::default(),
    }
}

/// Every GPU and MIG slice, every layout, every offer.
#[divan::bench(args = MODELS, sample_size = 1, max_time = 2)]
fn plan_over_the_whole_catalogue(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::new(name);
    bencher.bench_local(|| case.plan());
}

/// A search of one GPU and one layout: obstacles, memory, the SLO, replicas, its report.
#[divan::bench(args = MODELS, max_time = 0.5)]
fn one_candidate(bencher: Bencher<'_, '_>, name: &str) {
    let mut case = Case::new(name);
    case.workload.limits.gpus = vec!["H100 SXM5 80GB".into()];
    case.choices.slices = false;
    case.choices.top = 1;
    case.choices.fixed = Some(Fixed {
        layout: Some(Layout::tensor(8)),
        ..Fixed::default()
    });
    bencher.bench_local(|| case.plan());
}

#[divan::bench(args = MODELS, max_time = 0.5)]
fn memory_plan(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::new(name);
    let setup = case.setup();
    bencher.bench_local(|| memory::plan(black_box(&setup)));
}

/// From a setup to its operators: what a candidate pays once.
#[divan::bench(args = MODELS, max_time = 0.5)]
fn operators_of_a_setup(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::new(name);
    let setup = case.setup();
    bencher.bench_local(|| StepShape::new(black_box(&setup)));
}

#[divan::bench(args = MODELS, max_time = 0.5)]
fn decode_step(bencher: Bencher<'_, '_>, name: &str) {
    let case = Case::new(name);
    let setup = case.setup();
    let shape = Arc::new(StepShape::new(&setup));
    let steps = StepModel::new(&setup, shape, &case.knowledge.serving);
    let batch = Batch {
        decodes: 32.0,
        context: f64::from(INPUT + OUTPUT / 2),
        ..Batch::default()
    };
    bencher.bench_local(|| steps.time(black_box(&batch)));
}

#[divan::bench(args = MODELS, max_time = 0.5)]
fn closed_loop(bencher: Bencher<'_, '_>, name: &str) {
    let cycle = Case::new(name).cycle();
    let load = ClosedLoop {
        one_length: true,
        ..ClosedLoop::endless(64.0, LENGTHS, 256.0)
    };
    bencher.bench_local(|| black_box(&load).solve(&cycle));
}

/// At half of what the server sustains.
#[divan::bench(args = MODELS, max_time = 0.5)]
fn open_loop(bencher: Bencher<'_, '_>, name: &str) {
    let cycle = Case::new(name).cycle();
    let mut load = OpenLoop {
        rate: 0.0,
        burstiness: 1.0,
        lengths: LENGTHS,
        input_variation: 0.5,
        capacity: 256.0,
        requests: None,
    };
    load.rate = load.largest_rate(&cycle) / 2.0;
    bencher.bench_local(|| black_box(&load).solve(&cycle));
}
