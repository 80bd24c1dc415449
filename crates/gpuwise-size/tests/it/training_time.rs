//! Time of a training step: laws, and figures that sources count by their own arithmetic.

use crate::fixture::{catalogue, model, training_facts};
use gpuwise_domain::catalogue::Catalogue;
use gpuwise_domain::training::{
    Adapter, AdapterKind, BaseStorage, Framework, LossKernel, Method, Offload, Optimizer, Recipe,
    Recompute, Sharding, StepCause, StepTime, TrainingLayout, TrainingSetup,
};
use gpuwise_domain::training_facts::{ConstantSet, TrainingFacts};
use gpuwise_size::training::time::{
    FlopCount, SETS, TRAINING_PARAMETERS, TrainingConstants, model_flops_per_token, step_time,
};
use gpuwise_units::Tokens;
use proptest::prelude::*;
use std::sync::LazyLock;

fn megatron(layout: TrainingLayout, sequence: u64, global_batch: u64) -> TrainingSetup {
    TrainingSetup {
        method: Method::Full,
        alignment: None,
        recipe: Recipe::Fp8,
        optimizer: Optimizer::AdamW,
        recompute: Recompute::None,
        loss: LossKernel::VocabularyParallel,
        framework: Framework::Megatron,
        sequence: Tokens(sequence),
        micro_batch: 1,
        global_batch,
        layout,
        sharding: Sharding::Optimizer,
        offload: Offload::default(),
        compiled: false,
        step_in_backward: false,
    }
}

fn time(name: &str, gpu: &str, setup: &TrainingSetup) -> StepTime {
    static CATALOGUE: LazyLock<(Catalogue, TrainingFacts)> =
        LazyLock::new(|| (catalogue(), training_facts()));
    let (catalogue, facts) = &*CATALOGUE;
    let gpu = catalogue.gpu(gpu).expect("a GPU of the catalogue");
    step_time(&model(name), setup, gpu, facts)
}

fn part(time: &StepTime, cause: StepCause) -> f64 {
    let found = time.parts.iter().find(|(known, _)| *known == cause);
    found.map_or(0.0, |(_, seconds)| *seconds)
}

/// GFLOP a token: TFLOP/s of a row over its tokens a second, both as published.
const PUBLISHED: &[(&str, u64, FlopCount, f64)] = &[
    (
        "meta-llama/Meta-Llama-3-70B",
        8192,
        FlopCount::Causal,
        2064.0 / 4.596,
    ),
    (
        "meta-llama/Llama-3.1-405B",
        8192,
        FlopCount::Causal,
        2495.0 / 0.988,
    ),
    (
        "meta-llama/Meta-Llama-3-8B",
        8192,
        FlopCount::Causal,
        1933.0 / 37.556,
    ),
    (
        "deepseek-ai/DeepSeek-V3",
        4096,
        FlopCount::Causal,
        1088.0 / 4.357,
    ),
    (
        "Qwen/Qwen3-235B-A22B",
        4096,
        FlopCount::Causal,
        974.0 / 6.583,
    ),
    (
        "Qwen/Qwen3-30B-A3B",
        4096,
        FlopCount::Causal,
        699.0 / 30.376,
    ),
    (
        "openai/gpt-oss-120b",
        4096,
        FlopCount::Causal,
        527.0 / 19.412,
    ),
    (
        "openai/gpt-oss-120b",
        8192,
        FlopCount::Causal,
        565.0 / 18.347,
    ),
    (
        "moonshotai/Kimi-K2-Instruct",
        4096,
        FlopCount::Causal,
        1037.0 / 5.072,
    ),
    (
        "nemo/gpt3-175b",
        2048,
        FlopCount::WholeMatrix,
        888.0 / 0.825,
    ),
    (
        "nvidia/nemotron-3-22b",
        4096,
        FlopCount::WholeMatrix,
        562.0 / 4.312,
    ),
    (
        "meta-llama/Meta-Llama-3-70B",
        8192,
        FlopCount::WholeMatrix,
        734.0 / 1.524,
    ),
];

#[test]
fn sources_count_the_models_work_as_published() {
    for (name, sequence, count, published) in PUBLISHED {
        let setup = megatron(TrainingLayout::data(8), *sequence, 8);
        let ours = model_flops_per_token(&model(name), &setup, *count) / 1e9;
        let off = (ours / published - 1.0).abs();
        assert!(
            off < 0.0025,
            "{name} at {sequence}: {ours:.2}, published {published:.2}"
        );
    }
}

#[test]
fn parts_sum_to_the_step_and_speeds_follow() {
    let mut layout = TrainingLayout::data(8);
    (layout.tensor, layout.pipeline, layout.interleave) = (4, 4, 5);
    let setup = megatron(layout, 8192, 256);
    let time = time("meta-llama/Meta-Llama-3-70B", "H100", &setup);
    let sum: f64 = time.parts.iter().map(|(_, seconds)| seconds).sum();
    assert!((sum / time.step.value - 1.0).abs() < 1e-12);
    let tokens = 256.0 * 8192.0 / time.step.value / 128.0;
    assert!((tokens / time.tokens_per_second_per_gpu.value - 1.0).abs() < 1e-12);
    assert!(time.step.low < time.step.value && time.step.value < time.step.high);
    for cause in [
        StepCause::TensorParallel,
        StepCause::Pipeline,
        StepCause::DataParallel,
    ] {
        assert!(part(&time, cause) > 0.0, "{cause:?}");
    }
    assert!(part(&time, StepCause::ExpertParallel).abs() < f64::EPSILON);
}

fn lora(base: BaseStorage) -> Method {
    Method::Adapter(Adapter {
        kind: AdapterKind::Lora,
        name: None,
        rank: Some(16),
        modules: Vec::new(),
        trainable: None,
        base,
    })
}

/// Forward multiplies each weight with each token once. Backward does so once for the gradient of the
/// layer's input, and once more for that of the weights, where these are trained.
#[test]
fn a_second_forward_pass_is_a_third_of_a_full_step_and_half_of_one_with_a_frozen_base() {
    let name = "meta-llama/Llama-3.1-8B";
    // Matmuls alone: one token sees next to nothing of others, and is launched for free.
    let share = |method: &Method| {
        let setup = |recompute| TrainingSetup {
            method: method.clone(),
            alignment: None,
            recipe: Recipe::PureBf16,
            framework: Framework::HuggingFace,
            loss: LossKernel::Eager,
            sharding: Sharding::None,
            recompute,
            ..megatron(TrainingLayout::data(1), 512, 1)
        };
        let again = time(name, "H100", &setup(Recompute::Full));
        let plain = time(name, "H100", &setup(Recompute::None));
        assert!(part(&plain, StepCause::Recompute).abs() < f64::EPSILON);
        let (mfu, hfu) = (again.mfu.expect("MFU").value, again.hfu.expect("HFU").value);
        (
            hfu / mfu - 1.0,
            part(&again, StepCause::Recompute)
                / (plain.step.value
                    - part(&plain, StepCause::Loss)
                    - part(&plain, StepCause::Optimizer)),
        )
    };
    let (full, frozen) = (share(&Method::Full), share(&lora(BaseStorage::SixteenBit)));
    // The head (7 % of the weights) is not computed again, and attention once in three and a half.
    assert!((0.29..1.0 / 3.0).contains(&full.0), "{full:?}");
    assert!((0.43..0.5).contains(&frozen.0), "{frozen:?}");
    assert!((0.31..0.34).contains(&full.1), "{full:?}");
    assert!((0.38..0.5).contains(&frozen.1), "{frozen:?}");
    // Of quantized weights writing them out is done again too: no share is larger than the matmuls'.
    let quantized = share(&lora(BaseStorage::Nf4 { double: true }));
    assert!(quantized.1 > frozen.1 && quantized.1 < 0.5, "{quantized:?}");
}

/// What lies on the host comes over its link, whatever is trained.
#[test]
fn nothing_is_offloaded_for_free() {
    for method in [
        Method::Full,
        lora(BaseStorage::SixteenBit),
        lora(BaseStorage::EightBit),
    ] {
        for framework in [Framework::HuggingFace, Framework::PyTorch] {
            let setup = |offload| TrainingSetup {
                method: method.clone(),
                framework,
                recipe: Recipe::PureBf16,
                sharding: Sharding::Full,
                recompute: Recompute::Full,
                offload,
                ..megatron(TrainingLayout::data(8), 4096, 64)
            };
            let seconds = |optimizer, parameters, activations| {
                let offload = Offload {
                    optimizer,
                    parameters,
                    activations,
                };
                time("meta-llama/Llama-3.1-8B", "H100", &setup(offload))
                    .step
                    .value
            };
            let here = seconds(false, false, false);
            assert!(
                seconds(true, false, false) > here,
                "{framework:?} {method:?}"
            );
            assert!(
                seconds(false, true, false) > here,
                "{framework:?} {method:?}"
            );
            assert!(
                seconds(false, false, true) > here,
                "{framework:?} {method:?}"
            );
        }
    }
}

/// Whatever is trained on whatever: no share of the peak, nor its range, is beyond it.
#[test]
fn no_range_reaches_beyond_the_peak() {
    let (known, facts) = (catalogue(), training_facts());
    let methods = [
        Method::Full,
        lora(BaseStorage::SixteenBit),
        lora(BaseStorage::Nf4 { double: true }),
    ];
    let models = [
        "meta-llama/Llama-3.2-1B",
        "meta-llama/Llama-3.1-70B",
        "openai/gpt-oss-120b",
        "google/gemma-3-27b-it",
    ]
    .map(model);
    let mut seen = 0;
    for gpu in &known.gpus {
        for architecture in &models {
            for method in &methods {
                for (framework, recipe) in [
                    (Framework::Megatron, Recipe::Fp8),
                    (Framework::Megatron, Recipe::Nvfp4),
                    (Framework::PyTorch, Recipe::MixedBf16),
                    (Framework::PyTorch, Recipe::Tf32),
                    (Framework::HuggingFace, Recipe::PureBf16),
                ] {
                    for (recompute, sequence) in
                        [(Recompute::None, 4096), (Recompute::Full, 131_072)]
                    {
                        let setup = TrainingSetup {
                            method: method.clone(),
                            alignment: None,
                            recipe,
                            framework,
                            recompute,
                            micro_batch: 4,
                            ..megatron(TrainingLayout::data(1), sequence, 64)
                        };
                        let time = step_time(architecture, &setup, gpu, &facts);
                        for share in time.mfu.iter().chain(&time.hfu) {
                            seen += 1;
                            let at = format!("{} {setup:?}: {share:?}", gpu.name);
                            assert!(0.0 < share.low && share.low <= share.value, "{at}");
                            assert!(share.value <= share.high && share.high <= 1.0, "{at}");
                        }
                    }
                }
            }
        }
    }
    assert!(seen > 5_000, "{seen} shares");
}

#[test]
fn what_costs_more_takes_longer() {
    let name = "meta-llama/Meta-Llama-3-70B";
    let mut layout = TrainingLayout::data(4);
    (layout.tensor, layout.pipeline, layout.interleave) = (4, 4, 5);
    let base = megatron(layout, 8192, 256);
    let step = |setup: &TrainingSetup, gpu| time(name, gpu, setup).step.value;
    let here = step(&base, "H100");
    let changed = |change: &dyn Fn(&mut TrainingSetup)| {
        let mut setup = base.clone();
        change(&mut setup);
        step(&setup, "H100")
    };
    assert!(changed(&|s| s.recompute = Recompute::Full) > 1.2 * here);
    assert!(changed(&|s| s.recipe = Recipe::MixedBf16) > 1.2 * here);
    assert!(changed(&|s| s.layout.interleave = 1) > here);
    assert!(changed(&|s| s.offload.optimizer = true) > here);
    assert!(changed(&|s| s.global_batch = 512) > 1.9 * here);
    assert!(changed(&|s| s.layout.data = 8) < 0.6 * here);
    assert!(step(&base, "B200") < 0.7 * here);
}

#[test]
fn experts_beyond_the_domain_pay_the_network() {
    let mut layout = TrainingLayout::data(64);
    let step = |layout: TrainingLayout, gpu| {
        let mut setup = megatron(layout, 4096, 1280);
        setup.recipe = Recipe::MixedBf16;
        setup.micro_batch = 4;
        time("openai/gpt-oss-120b", gpu, &setup)
    };
    layout.expert = 8;
    let near = step(layout, "B200");
    layout.expert = 64;
    let far = step(layout, "B200");
    let rack = step(layout, "GB200");
    let dispatch = |time: &StepTime| part(time, StepCause::ExpertParallel);
    assert!(dispatch(&far) > 3.0 * dispatch(&near));
    assert!(dispatch(&far) > 3.0 * dispatch(&rack));
    assert!(far.step.value > near.step.value && far.step.value > rack.step.value);
}

#[test]
fn frozen_bases_are_faster_and_what_silicon_lacks_is_said() {
    use gpuwise_domain::estimate::Basis;
    let full = megatron(TrainingLayout::data(8), 4096, 64);
    let name = "meta-llama/Llama-2-7b-hf";
    let h100 = time(name, "H100", &full);
    assert_eq!(h100.basis, Basis::Calibrated);
    let a100 = time(name, "A100 SXM4 80GB", &full);
    assert_eq!(a100.basis, Basis::Extrapolated);
    assert!(a100.mfu.is_none());
    assert!(a100.assumptions.iter().any(|text| text.contains("no FP8")));
    let width = |time: &StepTime| time.step.high / time.step.low;
    assert!(width(&a100) > width(&h100));
}

#[test]
fn the_concept_page_says_what_each_constant_means() {
    let page = include_str!("../../../../docs/concepts/training-step.md");
    for info in TRAINING_PARAMETERS {
        let line = format!(
            "| `{}` | {} | {} | {} | {} |",
            info.key, info.meaning, info.unit, info.prior, info.spread
        );
        assert!(page.contains(&line), "the page lacks: {line}");
    }
}

#[test]
fn the_catalogue_has_every_constant_of_every_set() {
    let facts = training_facts();
    for name in SETS {
        let set = facts.sets.iter().find(|set| set.name == name);
        let set = set.expect("a set of the catalogue");
        assert_eq!(set.values.len(), TRAINING_PARAMETERS.len(), "{name}");
        let back = TrainingConstants::of(set).to_set(name, set.rows, set.error);
        for info in TRAINING_PARAMETERS {
            let value = |set: &ConstantSet| {
                let found = set.values.iter().find(|(key, _)| key == info.key);
                found.expect("a constant").1
            };
            assert!(
                (value(set) / value(&back) - 1.0).abs() < 1e-9,
                "{}",
                info.key
            );
        }
    }
}

proptest! {
    #[test]
    fn every_step_has_a_positive_time(
        exponents in prop::array::uniform5(0_u32..5),
        micro_batch in 1_u64..5,
        sequence in 1_u64..70_000,
        batches in 1_u64..64,
        which in 0_usize..3,
    ) {
        let name = ["mosaicml/mpt-7b", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"][which];
        let [tensor, pipeline, context, data, expert] = exponents.map(|e| 1_u32 << e);
        let layout = TrainingLayout {
            tensor, pipeline, interleave: 1, context, expert, data, sequence_parallel: true,
        };
        let mut setup = megatron(layout, sequence, micro_batch * u64::from(data) * batches);
        setup.micro_batch = micro_batch;
        for gpu in ["H100", "GB200", "L4", "MI300X"] {
            let time = time(name, gpu, &setup);
            prop_assert!(time.step.value.is_finite() && time.step.value > 0.0);
            prop_assert!(time.parts.iter().all(|(_, seconds)| *seconds > 0.0));
            let speed = time.tokens_per_second_per_gpu;
            prop_assert!(speed.low <= speed.value && speed.value <= speed.high);
            let sum: f64 = time.parts.iter().map(|(_, seconds)| seconds).sum();
            prop_assert!((sum / time.step.value - 1.0).abs() < 1e-9);
        }
    }
}
