//! Recipes for DeepSpeed and TRL as these read them: every key is one of the release's own list.

use crate::training::{adapter, check, model, plan, setup, yaml};
use gpuwise_domain::{
    alignment::{Alignment, Grpo, RolloutEngine, RolloutMode},
    training::{
        AdapterKind, BaseStorage, Framework, LossKernel, Offload, Optimizer, Recipe, Recompute,
        Sharding, TrainingLayout, TrainingSetup,
    },
};
use gpuwise_units::Bytes;
use gpuwise_view::training::emit::{RecipeForm, recipe};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Names of keys and flags by what reads them, each row with its source.
const KEYS: &str = include_str!("data/recipe_keys.csv");

fn names(of: &[&str]) -> BTreeSet<String> {
    let mut reader = csv::Reader::from_reader(KEYS.as_bytes());
    let rows = reader.records().map(|row| row.expect("a row"));
    let wanted = rows.filter(|row| of.contains(&&row[0]));
    let all: BTreeSet<String> = wanted
        .flat_map(|row| row[2].split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(!all.is_empty(), "{of:?}");
    all
}

fn known(found: &Value, of: &[&str]) {
    let names = names(of);
    for key in found.as_object().expect("a map").keys() {
        assert!(names.contains(key), "{key} is none of {of:?}");
    }
}

fn full(sharding: Sharding) -> TrainingSetup {
    TrainingSetup {
        sharding,
        ..setup(TrainingLayout::data(16), Framework::HuggingFace)
    }
}

fn qlora() -> TrainingSetup {
    TrainingSetup {
        recipe: Recipe::PureBf16,
        method: adapter(
            BaseStorage::Nf4 { double: true },
            AdapterKind::Lora,
            &["q_proj", "v_proj"],
        ),
        ..full(Sharding::None)
    }
}

fn rollouts(mode: RolloutMode) -> Alignment {
    Alignment::Grpo(Grpo {
        generations: 8,
        prompt: 7168,
        completion: 1024,
        beta: 0.001,
        engine: RolloutEngine {
            mode,
            tensor: 2,
            share: 0.3,
            sleeps: true,
            held: Bytes::new(24 << 30),
        },
        reward: 1.0,
    })
}

fn refused(form: RecipeForm, setup: TrainingSetup) -> String {
    recipe(form, &plan(setup), &model())
        .expect_err("no such recipe")
        .to_string()
}

#[test]
fn deepspeed_is_given_what_it_reads() {
    for (sharding, stage) in [
        (Sharding::None, 0),
        (Sharding::Optimizer, 1),
        (Sharding::Gradients, 2),
        (Sharding::Full, 3),
    ] {
        let mut asked = full(sharding);
        asked.offload = Offload {
            optimizer: stage > 0,
            parameters: stage == 3,
            activations: true,
        };
        let text = recipe(RecipeForm::DeepSpeed, &plan(asked), &model()).unwrap();
        let found: Value = serde_json::from_str(&text).expect("JSON");
        known(&found, &["deepspeed"]);
        known(&found["bf16"], &["deepspeed.bf16"]);
        let zero = &found["zero_optimization"];
        known(zero, &["deepspeed.zero_optimization"]);
        let again = &found["activation_checkpointing"];
        known(again, &["deepspeed.activation_checkpointing"]);
        for part in ["offload_param", "offload_optimizer"] {
            if zero[part] != Value::Null {
                known(
                    &zero[part],
                    &[&format!("deepspeed.zero_optimization.{part}")],
                );
            }
        }
        check(
            &found,
            &[
                ("train_batch_size", 512.into()),
                ("train_micro_batch_size_per_gpu", 2.into()),
                ("gradient_accumulation_steps", 16.into()),
                ("bf16.enabled", true.into()),
                ("zero_optimization.stage", stage.into()),
                ("activation_checkpointing.cpu_checkpointing", true.into()),
            ],
        );
        // Its own law of the three batch sizes.
        assert_eq!(512, 2 * 16 * 16);
        let host = |part: &str| zero[part]["device"].as_str();
        assert_eq!(host("offload_optimizer"), (stage > 0).then_some("cpu"));
        assert_eq!(host("offload_param"), (stage == 3).then_some("cpu"));
    }
}

#[test]
fn what_deepspeed_has_not_is_said() {
    let form = RecipeForm::DeepSpeed;
    let layout = TrainingLayout {
        tensor: 2,
        ..TrainingLayout::data(8)
    };
    let host = Offload {
        optimizer: true,
        ..Offload::default()
    };
    for (asked, said) in [
        (setup(layout, Framework::Megatron), "TP2"),
        (full(Sharding::Hybrid { group: 8 }), "groups of 8"),
        (
            TrainingSetup {
                recipe: Recipe::PureBf16,
                ..full(Sharding::Full)
            },
            "--recipe bf16",
        ),
        (
            TrainingSetup {
                offload: host,
                ..full(Sharding::None)
            },
            "--sharding",
        ),
        (
            TrainingSetup {
                offload: host,
                optimizer: Optimizer::Lion,
                ..full(Sharding::Full)
            },
            "lion",
        ),
        (
            TrainingSetup {
                recompute: Recompute::Selective,
                ..full(Sharding::Full)
            },
            "attention alone",
        ),
    ] {
        let why = refused(form, asked);
        assert!(why.contains(said), "{said}: {why}");
    }
}

#[test]
fn trl_is_given_what_it_reads() {
    for (sharding, profile) in [
        (Sharding::None, "multi_gpu"),
        (Sharding::Optimizer, "zero1"),
        (Sharding::Gradients, "zero2"),
        (Sharding::Full, "zero3"),
    ] {
        let found = yaml(RecipeForm::Trl, full(sharding));
        known(&found, &["all", "sft"]);
        check(
            &found,
            &[
                ("model_name_or_path", "org/A-model".into()),
                ("accelerate_config", profile.into()),
                ("num_processes", 16.into()),
                ("num_machines", 2.into()),
                ("dtype", "float32".into()),
                ("bf16", true.into()),
                ("per_device_train_batch_size", 2.into()),
                ("gradient_accumulation_steps", 16.into()),
                ("gradient_checkpointing", true.into()),
                ("use_liger_kernel", false.into()),
                ("max_length", 8192.into()),
                ("packing", true.into()),
                ("max_steps", 480.into()),
                ("use_peft", Value::Null),
            ],
        );
    }
    let mut pairs = qlora();
    pairs.alignment = Some(Alignment::Dpo { precomputed: true });
    let found = yaml(RecipeForm::Trl, pairs);
    known(&found, &["all", "dpo"]);
    check(
        &found,
        &[
            ("precompute_ref_log_probs", true.into()),
            ("use_peft", true.into()),
            ("lora_r", 16.into()),
            ("lora_target_modules", json!(["q_proj", "v_proj"])),
            ("load_in_4bit", true.into()),
            ("use_bnb_nested_quant", true.into()),
            ("dtype", "bfloat16".into()),
            ("packing", Value::Null),
        ],
    );
    let mut host = full(Sharding::Full);
    host.offload.parameters = true;
    check(
        &yaml(RecipeForm::Trl, host),
        &[
            ("accelerate_config", "multi_gpu".into()),
            ("deepspeed", "ds_config.json".into()),
        ],
    );
}

#[test]
fn trl_writes_completions_where_the_plan_does() {
    let mut colocated = full(Sharding::Full);
    colocated.alignment = Some(rollouts(RolloutMode::Colocate));
    let found = yaml(RecipeForm::Trl, colocated);
    known(&found, &["all", "grpo"]);
    check(
        &found,
        &[
            ("num_generations", 8.into()),
            ("max_completion_length", 1024.into()),
            ("beta", 0.001.into()),
            ("use_vllm", true.into()),
            ("vllm_mode", "colocate".into()),
            ("vllm_gpu_memory_utilization", 0.3.into()),
            ("vllm_tensor_parallel_size", 2.into()),
            ("vllm_max_model_length", 8192.into()),
            ("vllm_enable_sleep_mode", true.into()),
        ],
    );
    let mut served = full(Sharding::Full);
    served.alignment = Some(rollouts(RolloutMode::Server { engines: 3 }));
    let mut all = plan(served);
    all.gpus += 6;
    let text = recipe(RecipeForm::Trl, &all, &model()).unwrap();
    let serve = text.lines().find(|line| line.contains("trl vllm-serve"));
    let serve = serve.expect("the server's command");
    assert!(serve.contains("On 6 GPUs"), "{serve}");
    assert!(serve.contains("--data_parallel_size 3"), "{serve}");
    let flags = names(&["vllm-serve"]);
    for flag in serve.split(' ').filter_map(|word| word.strip_prefix("--")) {
        assert!(flags.contains(flag), "{flag}");
    }
    let found: Value = serde_saphyr::from_str(&text).unwrap();
    // Those that serve are none that train.
    check(
        &found,
        &[
            ("num_processes", 16.into()),
            ("vllm_mode", "server".into()),
            ("vllm_gpu_memory_utilization", Value::Null),
        ],
    );
}

#[test]
fn what_trl_has_not_is_said() {
    let sharded = TrainingSetup {
        sharding: Sharding::Full,
        ..qlora()
    };
    let boft = TrainingSetup {
        method: adapter(BaseStorage::SixteenBit, AdapterKind::Boft, &[]),
        ..full(Sharding::None)
    };
    let with = |change: fn(&mut TrainingSetup)| {
        let mut asked = full(Sharding::Full);
        change(&mut asked);
        asked
    };
    for (asked, said) in [
        (sharded, "quantized base"),
        (boft, "boft"),
        (with(|s| s.optimizer = Optimizer::Muon), "muon"),
        (with(|s| s.recipe = Recipe::Fp8), "fp8"),
        (with(|s| s.loss = LossKernel::Fused), "--loss eager"),
        (with(|s| s.layout.pipeline = 2), "PP2"),
        (
            with(|s| {
                s.offload.activations = true;
                s.alignment = Some(rollouts(RolloutMode::Colocate));
            }),
            "activations in GRPO",
        ),
    ] {
        let why = refused(RecipeForm::Trl, asked);
        assert!(why.contains(said), "{said}: {why}");
    }
    for form in [
        RecipeForm::Torchtune,
        RecipeForm::Axolotl,
        RecipeForm::Megatron,
    ] {
        let mut pairs = full(Sharding::Full);
        pairs.alignment = Some(Alignment::Dpo { precomputed: false });
        let why = refused(form, pairs);
        assert!(why.contains("dpo") && why.contains("--emit trl"), "{why}");
    }
}
