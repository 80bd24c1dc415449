//! Laws of silicon that the shipped constants must keep on every GPU of the catalogue: what a figure
//! owes to the peak is worked out here from the published shape of a model alone.

use crate::{
    catalogue::{self, Overrides},
    knowledge,
};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
    model::Architecture,
    precision::{CacheFormat, Compute},
    request::Request,
};
use gpuwise_sim::{
    deployed::deployed,
    engine::{Done, Replica, Role, Sink},
};
use gpuwise_size::{
    engines,
    knowledge::{Corrections, Knowledge},
    serving::{ClosedLoop, Cycle, Lengths, OpenLoop},
    setup::{Setup, Weights},
    speed::StepShape,
};
use std::sync::Arc;

const ENGINES: [EngineKind; 4] = [
    EngineKind::Vllm,
    EngineKind::Sglang,
    EngineKind::TensorRtLlm,
    EngineKind::LlamaCpp,
];
/// Llama-3.1-8B (its `config.json`): weights of the matmuls of all layers, and operations of attention
/// for each pair of tokens.
const MODEL: &str = "meta-llama/Llama-3.1-8B";
const WEIGHTS: f64 = 32.0 * (4096.0 * 6144.0 + 4096.0 * 4096.0 + 3.0 * 4096.0 * 14336.0);
const PAIR: f64 = 32.0 * 4.0 * 4096.0;
const LENGTHS: [u32; 9] = [1, 16, 129, 2048, 2058, 8000, 8193, 32_000, 120_000];

/// Operations of a prompt, and of each token of an answer behind it.
fn prompt_work(input: f64) -> f64 {
    2.0 * WEIGHTS * input + PAIR * input * input / 2.0
}

fn answer_work(input: f64, output: f64) -> f64 {
    output * (2.0 * WEIGHTS + PAIR * (input + output / 2.0))
}

/// The most operations a second that a device states in the formats that a BF16 model may multiply in.
fn peak(device: &Device<'_>, engine: EngineKind) -> Option<f64> {
    let stated = |compute| device.peak(compute).map(gpuwise_units::FlopPerSecond::get);
    let half = stated(Compute::Half)?;
    // llama.cpp adds up in 16 bits, which consumer boards do at half of their rate for 8-bit integers.
    Some(match (engine, stated(Compute::Int8)) {
        (EngineKind::LlamaCpp, Some(integers)) => half.max(integers / 2.0),
        _ => half,
    })
}

fn on_every_gpu(mut check: impl FnMut(&Setup<'_>, &Knowledge, f64)) {
    let loaded = catalogue::load(&Overrides::default()).expect("the catalogue");
    let fitted = knowledge::fitted(&loaded).expect("the constants");
    let (_, architecture): (_, Architecture) = loaded.models.resolve(MODEL).expect("the model");
    let mut checked = 0;
    for gpu in &loaded.catalogue.gpus {
        for kind in ENGINES {
            let (engine, device) = (Engine::newest(kind), Device::whole(gpu));
            let Some(peak) = peak(&device, kind) else {
                continue;
            };
            let setup = Setup {
                architecture: &architecture,
                device,
                settings: engines::model(engine.kind).settings(
                    &engine,
                    &device,
                    Layout::SINGLE,
                    None,
                ),
                bucket: engines::model(engine.kind).bucket(&engine, device.gpu),
                engine,
                layout: Layout::tensor(1),
                weights: Weights::published(&architecture),
                cache: CacheFormat::HALF,
                draft: None,
                adapters: None,
                corrections: Corrections::default(),
            };
            checked += 1;
            check(&setup, &fitted, peak);
        }
    }
    assert!(checked > 100, "{checked} pairs of GPU and engine");
}

#[derive(Default)]
struct First(Option<u64>);

impl Sink for First {
    fn ended(&mut self, done: Done) {
        self.0 = done.first_token;
    }
}

/// Picoseconds to the first token of a prompt alone; `None` where the engine refuses it.
fn first_token(setup: &Setup<'_>, knowledge: &Knowledge, input: u32) -> Option<u64> {
    let constants = knowledge.constants(setup.engine.kind);
    let tokens = 1 << 20;
    let engine = deployed(setup, tokens, Role::Whole, constants, 0).ok()?;
    let mut replica = Replica::new(engine.settings, engine.cost).expect("settings of an engine");
    let mut first = First::default();
    let request = Request {
        input,
        output: 1,
        ..Request::default()
    };
    replica.submit(0, 0, request).ok()?;
    replica.advance(u64::MAX, &mut first);
    first.0
}

#[test]
fn simulated_first_tokens_grow_with_the_prompt_and_never_beat_the_peak() {
    on_every_gpu(|setup, knowledge, peak| {
        let mut before = 0;
        for length in LENGTHS {
            let Some(first) = first_token(setup, knowledge, length) else {
                continue;
            };
            let named = format!("{} {} {length}", setup.device.gpu.name, setup.engine.kind);
            assert!(first >= before, "{named}: {first} ps after {before} ps");
            let least = prompt_work(f64::from(length)) / peak;
            let seconds = first as f64 * 1e-12;
            assert!(
                seconds >= least * (1.0 - 1e-3),
                "{named}: {seconds} s of at least {least} s"
            );
            before = first;
        }
    });
}

#[test]
fn no_rate_in_steady_state_beats_the_peak() {
    on_every_gpu(|setup, knowledge, peak| {
        let constants = knowledge.constants(setup.engine.kind);
        let cycle = Cycle::new(setup, Arc::new(StepShape::new(setup)), constants);
        for (input, output) in [
            (8000.0, 20.0),
            (2000.0, 300.0),
            (100.0, 1000.0),
            (512.0, 64.0),
        ] {
            let work = prompt_work(input) + answer_work(input, output - 1.0);
            let named = format!(
                "{} {} {input}/{output}",
                setup.device.gpu.name, setup.engine.kind
            );
            let lengths = Lengths {
                input,
                cached: 0.0,
                output,
            };
            let open = OpenLoop {
                rate: 1.0,
                burstiness: 1.0,
                lengths,
                input_variation: 0.0,
                capacity: 256.0,
                requests: None,
            };
            let rate = open.largest_rate(&cycle);
            // No operator exceeds 0.89 of dense peak.
            let most = 0.89 * peak / work;
            assert!(
                rate <= most * 1.001,
                "{named}: {rate} requests/s of {most} at most"
            );
            let closed = ClosedLoop::endless(256.0, lengths, 256.0);
            let rate = closed.solve(&cycle).requests;
            assert!(
                rate <= most * 1.001,
                "{named}: {rate} requests/s in a closed loop, {most} at most"
            );
        }
    });
}
