//! Step times worked out anew from the published shape of one model, operator by operator: what the
//! engine's step times are held against. Nothing of the sizing model runs here but its constants.

use crate::{
    engine_naive::{serve, settings},
    naive,
};
use gpuwise_domain::{
    engine::{Engine, EngineKind},
    gpu::Device,
    layout::Layout,
    precision::CacheFormat,
    request::Request,
};
use gpuwise_read::catalogue::{ModelCatalogue, read_gpus};
use gpuwise_sim::{
    cost::{CostSegment, Picoseconds, RequestOverhead, Sized, StepCost, StepWork},
    engine::{Policy, Settings, SglangOrder, SglangRules, VllmRules},
};
use gpuwise_size::{
    constants::{Constants, Parameter as P},
    engines,
    knowledge::Corrections,
    serving::Cycle,
    setup::{Setup, Weights},
    speed::StepShape,
};
use proptest::prelude::*;
use std::{fs, path::PathBuf, sync::Arc};

/// Llama-3.1-8B (its `config.json`) in BF16 on one H100 SXM5 (its datasheet).
const LAYERS: f64 = 32.0;
const HIDDEN: f64 = 4096.0;
const FEED_FORWARD: f64 = 14336.0;
const KEY_VALUE_WIDTH: f64 = 8.0 * 128.0;
const VOCABULARY: f64 = 128_256.0;
const PEAK: f64 = 989.4e12;
const BANDWIDTH: f64 = 3.35e12;
const MULTIPROCESSORS: f64 = 132.0;

/// Rows and columns of the four matmuls of a layer: query, key and value; output; gate and up; down.
const MATMULS: [[f64; 2]; 4] = [
    [HIDDEN + 2.0 * KEY_VALUE_WIDTH, HIDDEN],
    [HIDDEN, HIDDEN],
    [2.0 * FEED_FORWARD, HIDDEN],
    [HIDDEN, FEED_FORWARD],
];

/// Operators one after the other, in seconds.
#[derive(Debug, Clone)]
struct ByHand(Constants);

impl ByHand {
    fn constant(&self, parameter: P) -> f64 {
        let place = self.0.place("Hopper", "vllm");
        self.0.get(parameter, place)
    }

    /// Reading against multiplying, of which the longer hides most of the shorter.
    fn matmul(&self, [rows, columns]: [f64; 2], tokens: f64) -> f64 {
        if tokens == 0.0 {
            return 0.0;
        }
        let reading = 2.0 * rows * columns / (BANDWIDTH * self.constant(P::MemoryRate));
        // The slowest of all numbers of tokens up to this one, tile row by tile row.
        let mut computing: f64 = 0.0;
        let mut upto = 0.0;
        while upto < tokens {
            upto = (upto + 128.0_f64).min(tokens);
            let padded = if upto < 256.0 {
                (upto / 16.0).ceil() * 16.0
            } else {
                upto
            };
            let tiles = (upto / 128.0).ceil() * (rows / 128.0).ceil();
            let busy = (tiles / MULTIPROCESSORS)
                .min(1.0)
                .powf(self.constant(P::TileExponent));
            let rate = PEAK * self.constant(P::HalfRate) * busy;
            computing = computing.max(2.0 * rows * columns * padded / rate);
        }
        let power = self.constant(P::Overlap);
        (reading.powf(power) + computing.powf(power)).powf(1.0 / power)
    }

    /// A step as the constants have it, and the least that silicon allows.
    fn step(&self, decodes: f64, context: f64, work: &StepWork) -> [f64; 2] {
        let (prompt, finished) = (f64::from(work.prefill), f64::from(work.finished));
        let tokens = decodes + prompt;
        let prompt_context = work.prefill_context as f64;
        let matmuls: f64 = MATMULS
            .iter()
            .map(|shape| self.matmul(*shape, tokens))
            .sum();
        let cache = 2.0 * 2.0 * KEY_VALUE_WIDTH * context;
        let attention = 4.0 * HIDDEN;
        let rate = PEAK * self.constant(P::AttentionRate);
        let power = self.constant(P::Overlap);
        let read = cache / (BANDWIDTH * self.constant(P::CacheRate));
        let decode =
            (read.powf(power) + (attention * context / rate).powf(power)).powf(1.0 / power);
        let attending = decode + attention * prompt_context / rate;
        // Four matmuls, six kernels around them.
        let kernels = 10.0 * self.constant(P::Kernel) * 1e-6;
        let passes = tokens * HIDDEN * self.constant(P::Stream) * 2.0 / BANDWIDTH;
        let mut layer = matmuls + attending + kernels + passes;
        if prompt > 0.0 {
            layer = layer.max(10.0 * self.constant(P::Launch) * 1e-6);
        }
        let version = (self.constant(P::BucketDecode) * decodes
            + self.constant(P::BucketPrefill) * prompt)
            / tokens;
        let head = self.matmul([VOCABULARY, HIDDEN], decodes + finished);
        let host = (self.constant(P::StepBase) + self.constant(P::StepSequence) * decodes) * 1e-6;
        let time = (LAYERS * layer + head) * version + host;

        let weights: f64 = MATMULS.iter().map(|[rows, columns]| rows * columns).sum();
        let sampled = decodes + finished;
        let head = if sampled > 0.0 {
            VOCABULARY * HIDDEN
        } else {
            0.0
        };
        let bytes = LAYERS * (2.0 * weights + cache) + 2.0 * head;
        let operations = LAYERS * (2.0 * weights * tokens + attention * (context + prompt_context))
            + 2.0 * head * sampled;
        [time, (bytes / BANDWIDTH).max(operations / PEAK)]
    }

    fn decoding(&self, sequences: u32, context: u64) -> f64 {
        let [time, least] = self.step(f64::from(sequences), context as f64, &StepWork::default());
        time.max(least)
    }
}

/// Seconds as whole picoseconds, without the type that the engine uses for it.
fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

impl StepCost for ByHand {
    fn decode(&mut self, sequences: u32, context: u64, _replica: u64) -> CostSegment {
        CostSegment {
            base: picoseconds(self.decoding(sequences, context)).cast_signed(),
            slope: 0,
            until: context + 1,
        }
    }

    fn mixed(&mut self, work: &StepWork, _replica: u64) -> Picoseconds {
        let [with, least] = self.step(f64::from(work.decodes), work.context as f64, work);
        let prompts = self.constant(P::PrefillFactor);
        let seconds = if work.decodes == 0 {
            (with.max(least) * prompts).max(least)
        } else {
            let alone = self.decoding(work.decodes, work.context);
            let more = (with.max(least) - alone).max(0.0);
            (alone + more * prompts * self.constant(P::MixedFactor)).max(least)
        };
        Picoseconds::new(picoseconds(seconds)).expect("time passes")
    }

    fn around(&self, _input: u32) -> RequestOverhead {
        RequestOverhead::default()
    }
}

fn catalogue(file: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../catalogue");
    fs::read_to_string(root.join(file)).expect("a file of the catalogue")
}

fn constants() -> Constants {
    Constants::prior(&["Hopper"], &["vllm"])
}

fn sized() -> Sized {
    let gpus = read_gpus("gpus.toml", &catalogue("gpus.toml")).expect("GPUs");
    let mut models = ModelCatalogue::default();
    models
        .add("llama.json", &catalogue("models/llama.json"))
        .expect("models");
    let (_, architecture) = models.resolve("meta-llama/Llama-3.1-8B").expect("Llama");
    let gpu = gpus
        .iter()
        .find(|gpu| gpu.name == "H100 SXM5 80GB")
        .expect("an H100");
    let (engine, device) = (Engine::newest(EngineKind::Vllm), Device::whole(gpu));
    let setup = Setup {
        architecture: &architecture,
        device,
        settings: engines::model(engine.kind).settings(&engine, &device, Layout::SINGLE, None),
        engine,
        bucket: gpuwise_domain::engine::VersionBucket::new("vllm"),
        layout: Layout::tensor(1),
        weights: Weights::published(&architecture),
        cache: CacheFormat::HALF,
        draft: None,
        adapters: None,
        corrections: Corrections::default(),
    };
    let shape = Arc::new(StepShape::new(&setup));
    Sized::new(Cycle::new(&setup, shape, &constants()))
}

fn engine(policy: Policy) -> Settings {
    let mut settings = Settings {
        max_sequences: 64,
        max_batched_tokens: 2048,
        max_context: 1 << 20,
        ..settings(policy)
    };
    settings.cache.blocks = 1 << 17;
    settings
}

fn policies() -> [Policy; 2] {
    let sglang = SglangRules {
        chunked_prefill: Some(2048),
        mixed_chunk: false,
        order: SglangOrder::Arrival,
        conservativeness: 1.0,
        initial_ratio: 0.7,
        least_ratio: 0.14,
        ratio_steps: 600,
        output_clip: 4096,
        retract_steps: 20,
        ignore_end: false,
    };
    [Policy::Vllm(VllmRules::default()), Policy::Sglang(sglang)]
}

fn request(input: u32, output: u32) -> Request {
    Request {
        input,
        output,
        ..Request::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Requests that come together: the engine with step times of the sizing model, in pieces and from
    /// memory, against the naive engine that multiplies out each step.
    #[test]
    fn engines_take_the_time_of_their_operators(
        lengths in prop::collection::vec((1..9000_u32, 1..120_u32), 1..8),
        policy in prop::sample::select(policies().to_vec()),
    ) {
        let arrivals: Vec<(u64, Request)> =
            lengths.iter().map(|(input, output)| (0, request(*input, *output))).collect();
        let settings = engine(policy);
        let (witness, _) = serve(&settings, sized(), &arrivals);
        let (naive, broken, _) = naive::run(&settings, &mut ByHand(constants()), &arrivals);
        prop_assert!(broken.is_empty());
        let found = witness.records();
        prop_assert_eq!(found.len(), naive.len());
        for (found, by_hand) in found.iter().zip(&naive) {
            prop_assert_eq!(found.number, by_hand.number);
            for (found, by_hand) in [
                (found.first_token, by_hand.first_token),
                (found.end, by_hand.end),
            ] {
                let apart = found as f64 / by_hand as f64 - 1.0;
                prop_assert!(apart.abs() < 0.005, "{} against {}", found, by_hand);
            }
        }
    }
}

/// What the first token of one prompt costs at least: two operations a weight and token, and the
/// attention of each token to those before it.
fn least(input: u32) -> f64 {
    let n = f64::from(input);
    let weights: f64 = MATMULS.iter().map(|[rows, columns]| rows * columns).sum();
    LAYERS * (2.0 * weights * n + 4.0 * HIDDEN * n * n / 2.0) / PEAK
}

#[test]
fn the_first_token_never_comes_sooner_for_a_longer_prompt() {
    let around = |length: u32| [length - 1, length, length + 1, length + 10];
    let mut lengths: Vec<u32> = [2, 16, 128, 256, 1024, 2048, 4096, 8192, 32_768]
        .into_iter()
        .flat_map(around)
        .chain((1..60).map(|step| step * 137))
        .chain([120_000, 500_000, 1_000_000])
        .collect();
    lengths.sort_unstable();
    for policy in policies() {
        let settings = engine(policy);
        let mut before = 0;
        for &length in &lengths {
            let (witness, _) = serve(&settings, sized(), &[(0, request(length, 1))]);
            let first = witness.done[0].first_token.expect("it was served");
            assert!(first >= before, "{length}: {first} after {before}");
            let (seconds, least) = (first as f64 * 1e-12, least(length));
            assert!(
                seconds >= least,
                "{length}: {seconds} s of at least {least} s"
            );
            before = first;
        }
    }
}
