//! llama.cpp's steps: bounds by silicon and order under the shipped form of the constants.

use crate::fixture;
use gpuwise_domain::precision::CacheFormat;
use gpuwise_domain::{engine::EngineKind, gpu::Device, layout::Layout};
use gpuwise_size::{
    constants::Constants,
    engines,
    formats::weights_named,
    knowledge::Corrections,
    setup::Setup,
    speed::{Batch, StepModel, StepShape},
};
use std::sync::Arc;

const GPUS: [&str; 6] = [
    "GeForce RTX 4090",
    "RTX A6000",
    "A100 SXM4 80GB",
    "MI300X",
    "Apple M2 Ultra (76-core GPU)",
    "Max 1550 (one stack)",
];

fn check(engine: &str, weights: &str, layout: Layout, test: impl Fn(&str, &StepModel, [f64; 3])) {
    let catalogue = fixture::catalogue();
    let model = fixture::model("meta-llama/Llama-3.1-8B");
    for name in GPUS {
        let gpu = catalogue.gpu(name).expect("a GPU of the catalogue");
        let device = Device::whole(gpu);
        let engine = crate::setups::engine(engine);
        assert_eq!(engine.kind, EngineKind::LlamaCpp);
        let setup = Setup {
            architecture: &model,
            device,
            bucket: engines::model(engine.kind).bucket(&engine, gpu),
            settings: engines::model(engine.kind).settings(&engine, &device, layout, None),
            engine,
            layout,
            weights: weights_named(&model, weights).expect("a format"),
            cache: CacheFormat::HALF,
            draft: None,
            adapters: None,
            corrections: Corrections::default(),
        };
        let constants = Constants::prior(&[], &[]);
        let steps = StepModel::new(&setup, Arc::new(StepShape::new(&setup)), &constants);
        let peaks = [gpu.peak.fp16, gpu.peak.fp32];
        let half = peaks
            .into_iter()
            .flatten()
            .map(gpuwise_units::FlopPerSecond::get)
            .fold(0.0, f64::max);
        // Sums in 16 bits run at half of the rate of 8-bit integers.
        let half = half.max(gpu.peak.int8.map_or(0.0, |rate| rate.get() / 2.0));
        // Parameters that multiply: all but the embedding.
        test(name, &steps, [gpu.bandwidth.get(), half, 7.5e9]);
    }
}

fn prompt(tokens: f64) -> Batch {
    Batch {
        prefill: tokens,
        prefill_context: tokens / 2.0,
        finished: 1.0,
        ..Batch::default()
    }
}

fn decode(sequences: f64, context: f64) -> Batch {
    Batch {
        decodes: sequences,
        context,
        ..Batch::default()
    }
}

#[test]
fn no_step_beats_bandwidth_or_peak() {
    for (weights, bytes) in [("F16", 2.0), ("Q4_0", 0.5625)] {
        check(
            "llama.cpp",
            weights,
            Layout::SINGLE,
            |name, steps, [bandwidth, half, parameters]| {
                let one = steps.time(&decode(1.0, 10.0)).total();
                assert!(
                    one > 0.99 * parameters * bytes / bandwidth,
                    "{name} {weights}: {one}"
                );
                let many = steps.time(&prompt(512.0)).total();
                assert!(
                    many > 2.0 * (parameters - 5.3e8) * 512.0 / half,
                    "{name} {weights}: {many}"
                );
            },
        );
    }
}

#[test]
fn more_tokens_sequences_and_context_never_take_less() {
    for (engine, layout) in [
        ("llama.cpp", Layout::SINGLE),
        ("llama.cpp (2023-10)", Layout::tensor(2)),
        (
            "llama.cpp",
            Layout {
                pipeline: 4,
                ..Layout::SINGLE
            },
        ),
    ] {
        check(engine, "Q4_0", layout, |name, steps, _| {
            let grows = |what: &str, batches: &[Batch]| {
                let times: Vec<f64> = batches.iter().map(|b| steps.time(b).total()).collect();
                assert!(
                    times
                        .windows(2)
                        .all(|pair| pair[0] <= pair[1] * (1.0 + 1e-12)),
                    "{name} {what}: {times:?}"
                );
            };
            let tokens = [
                1.0, 2.0, 7.0, 8.0, 9.0, 31.0, 33.0, 64.0, 65.0, 511.0, 512.0,
            ];
            grows("prompt", &tokens.map(prompt));
            grows("sequences", &tokens.map(|n| decode(n, 1000.0)));
            grows("context", &[1.0, 100.0, 1e4, 1e6].map(|c| decode(4.0, c)));
        });
    }
}

#[test]
fn chunks_pass_gpus_with_layers_of_their_own_faster_than_one_by_one() {
    let four = Layout {
        pipeline: 4,
        ..Layout::SINGLE
    };
    check("llama.cpp", "F16", four, |name, steps, _| {
        let one = steps.through(&prompt(512.0), 1.0);
        let eight = steps.through(&prompt(512.0), 8.0);
        assert!(eight < 8.0 * one, "{name}: {eight} for eight of {one}");
        // Not faster than four GPUs at once.
        assert!(
            eight > 8.0 * one / 4.0,
            "{name}: {eight} for eight of {one}"
        );
    });
}

#[test]
fn older_builds_and_rows_over_the_host_are_slower() {
    check(
        "llama.cpp (2023-10)",
        "F16",
        Layout::tensor(2),
        |name, old, _| {
            let rows = old.time(&prompt(512.0));
            check("llama.cpp", "F16", Layout::SINGLE, |other, new, _| {
                if name == other {
                    let whole = new.time(&prompt(512.0));
                    assert!(whole.overhead < rows.overhead, "{name}");
                    assert!(
                        rows.communication > 0.0 && whole.communication == 0.0,
                        "{name}"
                    );
                }
            });
        },
    );
}
