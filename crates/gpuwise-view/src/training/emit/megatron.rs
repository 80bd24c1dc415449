//! Megatron-LM core 0.20.0, flags read in `NVIDIA/Megatron-LM@d98e8a64ddf34856e74b24714e3bedb2f5a39553`:
//! `megatron/training/arguments.py`, and those that it makes of the fields of
//! `megatron/core/transformer/transformer_config.py` and `megatron/training/config/training_config.py`.

use super::{EmitError, cannot, hosts, only_texts};
use gpuwise_domain::{
    training::{
        LossKernel, Method, Optimizer, Recipe, Recompute, Sharding, TrainingLayout, TrainingSetup,
    },
    training_plan::TrainingPlan,
};
use std::fmt::Write as _;

const TOOL: &str = "Megatron-LM";

pub(super) fn recipe(plan: &TrainingPlan, layers: u64) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_texts(TOOL, setup)?;
    if let Method::Adapter(adapter) = &setup.method {
        return Err(cannot(
            TOOL,
            format!("method {} in its training script", adapter.kind.name()),
            "--emit torchtune, axolotl or accelerate have it",
        ));
    }
    let mut flags: Vec<String> = Vec::new();
    let mut flag = |text: String| flags.push(text);
    let layout = &setup.layout;
    for (name, degree) in [
        ("--tensor-model-parallel-size", layout.tensor),
        ("--pipeline-model-parallel-size", layout.pipeline),
        ("--context-parallel-size", layout.context),
    ] {
        flag(format!("{name} {degree}"));
    }
    if layout.interleave > 1 {
        flag(format!(
            "--num-virtual-stages-per-pipeline-rank {}",
            layout.interleave
        ));
    }
    for text in split(layout, layers)? {
        flag(text);
    }
    if layout.expert > 1 {
        flag(format!("--expert-model-parallel-size {}", layout.expert));
    }
    if layout.sequence_parallel {
        flag("--sequence-parallel".into());
    }
    flag(format!("--seq-length {}", setup.sequence.0));
    flag(format!("--micro-batch-size {}", setup.micro_batch));
    flag(format!("--global-batch-size {}", setup.global_batch));
    if let Some(run) = &plan.run {
        flag(format!("--train-iters {}", run.steps));
    }
    flag(format!("--save-interval {}", plan.checkpoints.steps));
    for text in precision(setup.recipe)? {
        flag((*text).into());
    }
    for text in recompute(setup.recompute) {
        flag((*text).into());
    }
    for text in states(setup)? {
        flag(text);
    }
    if setup.loss == LossKernel::Chunked {
        return Err(cannot(TOOL, "loss in chunks", "--loss vocabulary-parallel"));
    }
    Ok(text(plan, &flags))
}

/// Lines that continue, so that they can be pasted behind a launcher.
fn text(plan: &TrainingPlan, flags: &[String]) -> String {
    let (hosts, each) = hosts(plan);
    let mut out = format!(
        "# The sizing part for {} × {}: {}; flags as of Megatron-LM core 0.20.0.\n\
         # Add the model, data and learning rate.\n\
         torchrun --nnodes {hosts} --nproc-per-node {each} pretrain_gpt.py",
        plan.gpus,
        plan.gpu,
        plan.setup.placement_words()
    );
    for flag in flags {
        let _ = write!(out, " \\\n    {flag}");
    }
    out.push('\n');
    out
}

fn precision(recipe: Recipe) -> Result<&'static [&'static str], EmitError> {
    Ok(match recipe {
        Recipe::Fp32 | Recipe::Tf32 => &[],
        Recipe::MixedBf16 => &["--bf16"],
        Recipe::Fp16 => &["--fp16"],
        Recipe::Fp8 => &["--bf16", "--fp8-format hybrid", "--fp8-recipe tensorwise"],
        Recipe::Fp8Block => &["--bf16", "--fp8-format e4m3", "--fp8-recipe blockwise"],
        Recipe::Nvfp4 => &["--bf16", "--fp4-format e2m1", "--fp4-recipe nvfp4"],
        Recipe::PureBf16 => {
            return Err(cannot(
                TOOL,
                "BF16 weights without an FP32 copy",
                "--recipe bf16 keeps one",
            ));
        }
    })
}

fn recompute(recompute: Recompute) -> &'static [&'static str] {
    match recompute {
        Recompute::None => &[],
        Recompute::Selective => &["--recompute-granularity selective"],
        Recompute::Full => &[
            "--recompute-granularity full",
            "--recompute-method uniform",
            "--recompute-num-layers 1",
        ],
    }
}

/// How layers are dealt to stages, where not equally.
fn split(layout: &TrainingLayout, layers: u64) -> Result<Vec<String>, EmitError> {
    let stages = u64::from(layout.pipeline) * u64::from(layout.interleave);
    if stages <= 1 || layers.is_multiple_of(stages) {
        return Ok(Vec::new());
    }
    if (layers + 2).is_multiple_of(stages) {
        return Ok(vec![
            "--account-for-embedding-in-pipeline-split".into(),
            "--account-for-loss-in-pipeline-split".into(),
        ]);
    }
    if layout.interleave > 1 {
        return Err(cannot(
            TOOL,
            "virtual stages of unequal numbers of layers as they were sized here",
            "--vp 1",
        ));
    }
    let dealt = layout.stage_layers(layers);
    let stages: Vec<String> = dealt.iter().map(|count| format!("t*{count}")).collect();
    let written = format!("E,{},L", stages.join("|"));
    Ok(vec![format!(
        "--pipeline-model-parallel-layout \"{written}\""
    )])
}

/// Optimizer, sharding and offload.
fn states(setup: &TrainingSetup) -> Result<Vec<String>, EmitError> {
    let mut out = Vec::new();
    let optimizer = match setup.optimizer {
        Optimizer::AdamW => "adam",
        Optimizer::Sgd => "sgd",
        Optimizer::Muon => "muon",
        Optimizer::Lion => "lion",
        other => {
            return Err(cannot(
                TOOL,
                format!("optimizer {}", other.name()),
                "--optimizer adamw, muon, lion or sgd",
            ));
        }
    };
    out.push(format!("--optimizer {optimizer}"));
    match setup.sharding {
        Sharding::None => {}
        Sharding::Optimizer => {
            out.push("--use-distributed-optimizer".into());
            out.push("--overlap-grad-reduce".into());
            out.push("--overlap-param-gather".into());
        }
        other => {
            return Err(cannot(
                TOOL,
                format!("layout here with {}", other.words()),
                "--sharding optimizer",
            ));
        }
    }
    if setup.offload.parameters || setup.offload.activations {
        return Err(cannot(
            TOOL,
            "offload here of weights or activations",
            "--offload optimizer",
        ));
    }
    if setup.offload.optimizer {
        out.push("--optimizer-cpu-offload".into());
        out.push("--use-precision-aware-optimizer".into());
    }
    Ok(out)
}
