//! DPO and GRPO: sums by hand, and what holds beside training on given texts.

use crate::fixture::{catalogue, model, prior, training_facts};
use gpuwise_domain::{
    alignment::{Alignment, Grpo, Reference, RolloutEngine, RolloutMode},
    catalogue::Catalogue,
    model::Architecture,
    training::{
        Adapter, AdapterKind, BaseStorage, Framework, LossKernel, MemoryCause, Method, Offload,
        Optimizer, Phase, Recipe, Recompute, Sharding, StepCause, StepTime, TrainingLayout,
        TrainingMemory, TrainingSetup,
    },
    training_facts::TrainingFacts,
};
use gpuwise_size::{
    memory::visible_memory,
    training::{
        memory::training_memory,
        rollout::{RolloutError, rollout},
        search::{Cluster, Degrees, Formulas, Physics, Shape, TrainChoices, best, global_batch},
        time::step_time,
    },
};
use gpuwise_units::{Bytes, Tokens};
use proptest::prelude::*;
use std::sync::LazyLock;

const NAME: &str = "meta-llama/Llama-3.1-8B";
const PARAMETERS: f64 = 8_030_261_248.0;
const VOCABULARY: f64 = 128_256.0;
/// The driver's context, as the memory of training counts it.
const CONTEXT: f64 = 0.5e9;

static LLAMA: LazyLock<Architecture> = LazyLock::new(|| model(NAME));
static FACTS: LazyLock<(Catalogue, TrainingFacts)> =
    LazyLock::new(|| (catalogue(), training_facts()));

fn lora(base: BaseStorage) -> Method {
    Method::Adapter(Adapter {
        kind: AdapterKind::Lora,
        name: None,
        rank: Some(16),
        modules: vec!["all-linear".into()],
        trainable: None,
        base,
    })
}

/// One pair, or one completion, at a time on one GPU.
fn setup(method: Method, alignment: Alignment, sequence: u64) -> TrainingSetup {
    TrainingSetup {
        method,
        alignment: Some(alignment),
        recipe: Recipe::PureBf16,
        optimizer: Optimizer::AdamW,
        recompute: Recompute::Full,
        loss: LossKernel::Eager,
        framework: Framework::HuggingFace,
        sequence: Tokens(sequence),
        micro_batch: 1,
        global_batch: 1,
        layout: TrainingLayout::data(1),
        sharding: Sharding::None,
        offload: Offload::default(),
        compiled: false,
        step_in_backward: false,
    }
}

const DPO: Alignment = Alignment::Dpo { precomputed: false };

fn grpo(beta: f64, held: u64, sleeps: bool) -> Grpo {
    Grpo {
        generations: 8,
        prompt: 512,
        completion: 512,
        beta,
        engine: RolloutEngine {
            mode: RolloutMode::Colocate,
            tensor: 1,
            share: 0.3,
            sleeps,
            held: Bytes::new(held),
        },
        reward: 0.0,
    }
}

fn memory(setup: &TrainingSetup) -> TrainingMemory {
    training_memory(&LLAMA, setup).expect("memory")
}

fn peak(setup: &TrainingSetup) -> f64 {
    memory(setup).fullest().expect("a rank").peak.value
}

fn cause(setup: &TrainingSetup, wanted: MemoryCause) -> f64 {
    let memory = memory(setup);
    let causes = &memory.fullest().expect("a rank").causes;
    let found = causes.iter().find(|(cause, _)| *cause == wanted);
    found.map_or(0.0, |(_, bytes)| bytes.as_f64())
}

fn phase(setup: &TrainingSetup, wanted: Phase) -> f64 {
    let memory = memory(setup);
    let phases = &memory.fullest().expect("a rank").phases;
    let found = phases.iter().find(|(phase, _)| *phase == wanted);
    found.expect("a phase").1.as_f64()
}

fn time(setup: &TrainingSetup) -> StepTime {
    let (catalogue, facts) = &*FACTS;
    let gpu = catalogue.gpu("H100").expect("a GPU");
    step_time(&LLAMA, setup, gpu, facts)
}

fn part(time: &StepTime, cause: StepCause) -> f64 {
    let found = time.parts.iter().find(|(known, _)| *known == cause);
    found.map_or(0.0, |(_, seconds)| *seconds)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

/// Every weight in BF16: weights, gradients, two moments, the step's copy, and the frozen copy of the
/// model are two bytes each.
#[test]
fn every_weight_by_pairs_holds_the_model_once_more() {
    let full = setup(Method::Full, DPO, 1024);
    assert_eq!(full.reference(), Some(Reference::Copy));
    assert!(near(cause(&full, MemoryCause::Reference), 2.0 * PARAMETERS));
    assert!(near(peak(&full), 12.0 * PARAMETERS + CONTEXT));
    // As the loss is known: policy and reference have logits in FP32, and one of the two is cast.
    let kept = 2.0 * 1024.0 * 4096.0 * 2.0 * 32.0;
    let passing = 8.0 * 2.0 * 4096.0 * 2048.0;
    let logits = 2048.0 * VOCABULARY * (4.0 + 4.0 + 2.0);
    let forward = 2.0 * PARAMETERS + 4.0 * PARAMETERS + 2.0 * PARAMETERS;
    assert!(near(
        phase(&full, Phase::Forward),
        forward + CONTEXT + kept + passing + logits
    ));
    let precomputed = setup(Method::Full, Alignment::Dpo { precomputed: true }, 1024);
    assert_eq!(precomputed.reference(), None);
    assert!(near(peak(&precomputed), 10.0 * PARAMETERS + CONTEXT));
}

/// Sharded states shard the copy (ZeRO-3); below that it is whole on every rank.
#[test]
fn the_copy_is_divided_where_weights_are() {
    let on = |sharding, recipe| {
        let mut full = setup(Method::Full, DPO, 1024);
        (full.layout, full.global_batch) = (TrainingLayout::data(8), 64);
        (full.sharding, full.recipe) = (sharding, recipe);
        cause(&full, MemoryCause::Reference)
    };
    let mixed = Recipe::MixedBf16;
    assert!(near(on(Sharding::Full, mixed), 2.0 * PARAMETERS / 8.0));
    assert!(near(on(Sharding::Gradients, mixed), 2.0 * PARAMETERS));
    // Without DeepSpeed it is loaded as the policy is: in FP32, for autocast.
    assert!(near(on(Sharding::None, mixed), 4.0 * PARAMETERS));
    assert!(near(on(Sharding::None, Recipe::PureBf16), 2.0 * PARAMETERS));
}

/// The worked example of the concept page, where one sequence of 2048 tokens is a pair of 1024.
#[test]
fn an_adapter_s_reference_is_its_base() {
    let pair = setup(lora(BaseStorage::Nf4 { double: true }), DPO, 1024);
    assert_eq!(pair.reference(), Some(Reference::Base));
    assert!(cause(&pair, MemoryCause::Reference).abs() < f64::EPSILON);
    assert!((peak(&pair) / 1e9 - 10.92).abs() < 0.005, "{}", peak(&pair));
    let one = TrainingSetup {
        alignment: None,
        sequence: Tokens(2048),
        ..pair.clone()
    };
    assert!(near(peak(&one), peak(&pair)));
}

#[test]
fn an_engine_holds_its_share_and_completions_alone_are_scored() {
    let awake = setup(
        Method::Full,
        Alignment::Grpo(grpo(0.0, 24_000_000_000, false)),
        1024,
    );
    let none = TrainingSetup {
        alignment: None,
        ..awake.clone()
    };
    assert!(near(peak(&awake), peak(&none) + 24e9));
    // Asleep, it has its share only while nothing is trained: states alone are there.
    let asleep = |held| setup(Method::Full, Alignment::Grpo(grpo(0.0, held, true)), 1024);
    assert!(near(peak(&asleep(24_000_000_000)), peak(&none)));
    let most = phase(&asleep(60_000_000_000), Phase::Rollout);
    assert!(near(most, 6.0 * PARAMETERS + CONTEXT + 60e9));
    assert!(near(peak(&asleep(60_000_000_000)), most));
    let scored = |alignment| {
        let mut adapter = setup(lora(BaseStorage::SixteenBit), DPO, 1024);
        adapter.alignment = alignment;
        cause(&adapter, MemoryCause::Logits)
    };
    let half = 512.0 * VOCABULARY * 14.0;
    assert!(near(
        scored(Some(Alignment::Grpo(grpo(0.0, 0, false)))),
        half
    ));
    assert!(near(scored(None), 2.0 * half));
}

/// 64 prompts of 8 completions, each of 512 + 512 tokens.
#[test]
fn a_step_of_rollouts_counts_its_tokens() {
    let mut step = setup(Method::Full, Alignment::Grpo(grpo(0.0, 0, false)), 1024);
    step.global_batch = 512;
    assert_eq!(step.step_tokens(), 64 * 8 * 1024);
    let told = time(&step);
    let tokens = told.tokens_per_second_per_gpu.value * told.step.value;
    assert!(near(tokens, 524_288.0), "{tokens}");
    step.alignment = Some(DPO);
    assert_eq!(step.step_tokens(), 512 * 2 * 1024);
}

/// With every weight trained a forward pass is a third of matmuls and two of seven of attention; of an
/// adapter half.
#[test]
fn a_reference_is_a_forward_pass() {
    for (method, least, most) in [
        (Method::Full, 0.28, 1.0 / 3.0),
        (lora(BaseStorage::SixteenBit), 0.33, 0.5),
    ] {
        let mut pairs = setup(method, DPO, 1024);
        (pairs.recompute, pairs.micro_batch, pairs.global_batch) = (Recompute::None, 4, 64);
        let told = time(&pairs);
        let trained = time(&pairs.plain());
        let optimizer = part(&told, StepCause::Optimizer);
        let share = part(&told, StepCause::Reference) / (trained.step.value - optimizer);
        assert!((least..=most).contains(&share), "{share}");
        assert!(near(
            told.step.value,
            trained.step.value + part(&told, StepCause::Reference)
        ));
    }
}

#[test]
fn a_rollout_is_the_serving_model_on_what_is_left() {
    let (catalogue, _) = &*FACTS;
    let gpu = catalogue.gpu("H100").expect("a GPU");
    let knowledge = prior();
    let of = |setup: &TrainingSetup| {
        rollout(&LLAMA, setup, setup.grpo().expect("GRPO"), gpu, &knowledge)
    };
    let mut step = setup(Method::Full, Alignment::Grpo(grpo(0.0, 0, false)), 1024);
    (step.layout, step.global_batch) = (TrainingLayout::data(8), 512);
    let told = of(&step).expect("a rollout");
    assert!(near(told.completions, 64.0));
    // A token's keys and values: 8 heads of 128, twice, in 2 bytes, in 32 layers.
    let sequence = 1024.0 * 8.0 * 128.0 * 2.0 * 2.0 * 32.0;
    assert!(near(
        told.capacity,
        (told.cache.as_f64() / sequence).floor().min(64.0)
    ));
    assert!(near(told.waves, (told.completions / told.capacity).ceil()));
    let front = told.seconds.value - told.waves * (told.prefill + told.steps * told.decode);
    assert!((0.0..1.0).contains(&front), "{front}");
    assert!(told.seconds.low < told.seconds.value && told.seconds.value < told.seconds.high);
    // A decode step reads the weights at least.
    assert!(told.decode > 2.0 * (PARAMETERS - 525_336_576.0) / gpu.bandwidth.get());

    let starved = {
        let mut less = step.clone();
        let mut grpo = grpo(0.0, 0, false);
        grpo.engine.share = 0.2;
        less.alignment = Some(Alignment::Grpo(grpo));
        of(&less).expect_err("16 GB of weights in 16 GB")
    };
    assert!(matches!(starved, RolloutError::NoRoom { .. }), "{starved}");
    step.method = lora(BaseStorage::EightBit);
    assert_eq!(of(&step).expect_err("8 bits"), RolloutError::EightBit);
}

fn choices(alignment: Alignment) -> TrainChoices {
    TrainChoices {
        method: lora(BaseStorage::SixteenBit),
        alignment: Some(alignment),
        recipe: Recipe::PureBf16,
        without_bf16: None,
        optimizer: Optimizer::AdamW,
        framework: None,
        loss: None,
        recompute: None,
        sharding: None,
        offload: Offload::default(),
        compiled: false,
        sequence: 1024,
        micro_batch: None,
        global_batch: None,
        degrees: Degrees::default(),
    }
}

#[test]
fn a_search_leaves_room_for_engines_and_gpus_for_servers() {
    let (catalogue, facts) = &*FACTS;
    let gpu = catalogue.gpu("H100").expect("a GPU");
    let knowledge = prior();
    let physics = Formulas {
        architecture: &LLAMA,
        facts,
        knowledge: Some(&knowledge),
    };
    let cluster = Cluster {
        gpu,
        gpus: 8,
        domain: 8,
        per_host: 8,
        network: None,
    };
    let found = |alignment| {
        let all = best(&Shape::of(&LLAMA), &choices(alignment), &cluster, &physics);
        all.best.expect("a setup")
    };
    let colocated = found(Alignment::Grpo(grpo(0.0, 0, false)));
    let held = colocated.setup.grpo().expect("GRPO").engine.held.as_f64();
    let (visible, _) = visible_memory(&gpuwise_domain::gpu::Device::whole(gpu));
    assert!((held - 0.3 * visible).abs() < 2.0);
    assert!(colocated.memory.fullest().expect("a rank").reserved.value > held);
    assert_eq!(colocated.setup.global_batch, 512);
    let mut apart = grpo(0.0, 0, false);
    apart.engine.mode = RolloutMode::Server { engines: 2 };
    apart.engine.share = 0.9;
    let served = found(Alignment::Grpo(apart));
    assert_eq!(served.setup.layout.gpus(), 6);
    assert_eq!(served.setup.grpo().expect("GRPO").engine.held, Bytes::ZERO);
    // Whole prompts, and whole micro-batches on six ranks: 528 = 22 · 24.
    assert_eq!(served.setup.global_batch, 528);
    // All eight GPUs are counted for the tokens that six train on.
    let rate = served.step.tokens_per_second_per_gpu.value * 8.0;
    assert!(near(rate * served.step.step.value, 528.0 * 1024.0));
    for (gpus, batch) in [(1, 512), (6, 528), (7, 560), (16, 512)] {
        assert_eq!(
            global_batch(&choices(Alignment::Grpo(grpo(0.0, 0, false))), gpus),
            batch
        );
    }
    assert_eq!(global_batch(&choices(DPO), 6), 66);
    assert!(physics.step(&served.setup, &cluster).is_ok());
}

fn setups() -> impl Strategy<Value = TrainingSetup> {
    let kinds = (0..2usize, 0..3usize, 0..3usize, 0..2usize, any::<bool>());
    (1..5u64, 1..5u64, 0..4u32, 1..4u64, kinds).prop_map(
        |(micro, accumulated, ranks, sequence, (method, recipe, sharding, recompute, first))| {
            let data = 1 << ranks;
            TrainingSetup {
                recipe: [Recipe::MixedBf16, Recipe::PureBf16, Recipe::Fp32][recipe],
                sharding: [Sharding::None, Sharding::Gradients, Sharding::Full][sharding],
                recompute: [Recompute::None, Recompute::Full][recompute],
                micro_batch: micro,
                global_batch: micro * accumulated * u64::from(data),
                layout: TrainingLayout::data(data),
                ..setup(
                    if method == 0 {
                        Method::Full
                    } else {
                        lora(BaseStorage::SixteenBit)
                    },
                    Alignment::Dpo { precomputed: first },
                    512 * sequence,
                )
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pairs_take_no_less_than_their_sequences_as_given_texts(setup in setups()) {
        let plain = setup.plain();
        prop_assert!(peak(&setup) >= peak(&plain) * (1.0 - 1e-9));
        let (pairs, texts) = (time(&setup).step, time(&plain).step);
        prop_assert!(pairs.value >= texts.value && pairs.low >= texts.low && pairs.high >= texts.high);
        let live = TrainingSetup { alignment: Some(DPO), ..setup.clone() };
        prop_assert!(peak(&live) >= peak(&setup) && time(&live).step.value >= pairs.value);
    }

    #[test]
    fn a_step_of_rollouts_takes_no_less_than_its_training(setup in setups(), beta in 0..2u8) {
        let sizes = Grpo { prompt: setup.sequence.0 / 2, completion: setup.sequence.0 / 2, ..grpo(f64::from(beta), 20_000_000_000, false) };
        let written = TrainingSetup { alignment: Some(Alignment::Grpo(sizes)), ..setup.clone() };
        let told = time(&written);
        let sum: f64 = told.parts.iter().map(|(_, seconds)| seconds).sum();
        prop_assert!(near(told.step.value, sum));
        let beside = [StepCause::OldLogProbs, StepCause::Reference, StepCause::WeightSync];
        let more: f64 = beside.iter().map(|cause| part(&told, *cause)).sum();
        prop_assert!(more > 0.0 && told.step.value > more);
        prop_assert_eq!(part(&told, StepCause::Reference) > 0.0, beta > 0);
        prop_assert!(peak(&written) >= 20e9);
    }
}
