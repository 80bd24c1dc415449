//! Time of a training step: laws, and figures that sources count by their own arithmetic.

use crate::fixture::{catalogue, model};
use gpuwise_domain::training::{
    Framework, LossKernel, Method, Offload, Optimizer, Recipe, Recompute, Sharding, StepCause,
    StepTime, TrainingLayout, TrainingSetup,
};
use gpuwise_domain::training_facts::TrainingFacts;
use gpuwise_read::catalogue::read_training_facts;
use gpuwise_size::training::time::{FlopCount, model_flops_per_token, step_time};
use gpuwise_units::Tokens;

pub(crate) fn training_facts() -> TrainingFacts {
    let text = include_str!("../../../../catalogue/training.toml");
    read_training_facts("training.toml", text).expect("facts of training")
}

fn megatron(layout: TrainingLayout, sequence: u64, global_batch: u64) -> TrainingSetup {
    TrainingSetup {
        method: Method::Full,
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
    }
}

fn time(name: &str, gpu: &str, setup: &TrainingSetup) -> StepTime {
    let catalogue = catalogue();
    let gpu = catalogue.gpu(gpu).expect("a GPU of the catalogue");
    step_time(&model(name), setup, gpu, &training_facts())
}

fn part(time: &StepTime, cause: StepCause) -> f64 {
    let found = time.parts.iter().find(|(known, _)| *known == cause);
    found.map_or(0.0, |(_, seconds)| *seconds)
}

#[test]
fn sources_count_the_models_work_as_published() {
    // GFLOP a token: TFLOP/s of a row over its tokens a second, both as published.
    let cases = [
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
    for (name, sequence, count, published) in cases {
        let setup = megatron(TrainingLayout::data(8), sequence, 8);
        let ours = model_flops_per_token(&model(name), &setup, count) / 1e9;
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
