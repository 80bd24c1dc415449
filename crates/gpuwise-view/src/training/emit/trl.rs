//! TRL 1.9.0, fields read in `huggingface/trl@35def3ee000a87f6839e66f4b7749b06274ed1b3`:
//! `trl/trainer/{sft,dpo,grpo,model}_config.py`, `trl/scripts/{utils,grpo,vllm_serve}.py`,
//! `trl/accelerate_configs`, `trl/cli`; those of `TrainingArguments` in transformers 5.0.0.

use super::{EmitError, Yaml, cannot, heading, hosts, only_data, optimizer_name, quoted};
use gpuwise_domain::{
    alignment::{Alignment, Grpo, RolloutMode},
    training::{
        Adapter, AdapterKind, BaseStorage, LossKernel, Method, Recipe, Recompute, Sharding,
        TrainingSetup,
    },
    training_plan::TrainingPlan,
};

const TOOL: &str = "TRL";

pub(super) fn recipe(plan: &TrainingPlan, model: &str) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_data(TOOL, setup)?;
    let mut yaml = Yaml::default();
    heading(&mut yaml, plan, "TRL 1.9.0");
    comments(&mut yaml, plan, model);
    yaml.plain(0, "model_name_or_path", quoted(model));
    launch(&mut yaml, plan)?;
    precision(&mut yaml, setup)?;
    yaml.plain(0, "per_device_train_batch_size", setup.micro_batch);
    yaml.plain(0, "gradient_accumulation_steps", setup.accumulation());
    match setup.recompute {
        Recompute::None => yaml.plain(0, "gradient_checkpointing", false),
        Recompute::Full => yaml.plain(0, "gradient_checkpointing", true),
        Recompute::Selective => {
            return Err(cannot(
                TOOL,
                "recomputation of attention alone",
                "--recompute none or full",
            ));
        }
    }
    let Some(optimizer) = optimizer_name(setup.optimizer) else {
        return Err(cannot(
            TOOL,
            format!("optimizer {}", setup.optimizer.name()),
            "--optimizer adamw, adamw-8bit, adafactor, lion or sgd",
        ));
    };
    yaml.plain(0, "optim", optimizer);
    yaml.plain(0, "use_liger_kernel", liger(setup)?);
    if setup.compiled {
        yaml.plain(0, "torch_compile", true);
    }
    if let Method::Adapter(adapter) = &setup.method {
        adapters(&mut yaml, adapter)?;
    }
    trained(&mut yaml, setup)?;
    if let Some(run) = &plan.run {
        yaml.plain(0, "max_steps", run.steps);
        yaml.plain(0, "save_steps", plan.checkpoints.steps);
    }
    Ok(yaml.0)
}

/// The command of what is trained.
const fn command(setup: &TrainingSetup) -> &'static str {
    match &setup.alignment {
        None => "sft",
        Some(alignment) => alignment.name(),
    }
}

fn comments(yaml: &mut Yaml, plan: &TrainingPlan, model: &str) {
    let setup = &plan.setup;
    yaml.comment(&format!("trl {} --config THIS", command(setup)));
    yaml.comment(if setup.grpo().is_some() {
        "Add dataset_name, reward_funcs, learning_rate and output_dir."
    } else {
        "Add dataset_name, learning_rate and output_dir."
    });
    let (hosts, _) = hosts(plan);
    if hosts > 1 {
        yaml.comment(
            "On each host machine_rank, main_process_ip and main_process_port are its own.",
        );
    }
    if zero_file(setup) {
        yaml.comment("ds_config.json is what --emit deepspeed writes for the same plan.");
    }
    if let Some(grpo) = setup.grpo()
        && let RolloutMode::Server { engines } = grpo.engine.mode
    {
        // Models of numbers alone have names of several words.
        let model = model.replace(char::is_control, " ");
        yaml.comment(&format!(
            "On {} GPUs of their own before: trl vllm-serve --model {} --tensor_parallel_size {} \
             --data_parallel_size {engines} --gpu_memory_utilization {} --max_model_len {}",
            grpo.engine.own_gpus(),
            quoted(&model),
            grpo.engine.tensor,
            grpo.engine.share,
            setup.sequence.0
        ));
    }
}

/// Whether what lies on the host asks for a configuration of DeepSpeed of one's own.
const fn zero_file(setup: &TrainingSetup) -> bool {
    setup.offload.optimizer || setup.offload.parameters
}

/// The profile of accelerate that TRL brings, and processes.
fn launch(yaml: &mut Yaml, plan: &TrainingPlan) -> Result<(), EmitError> {
    let setup = &plan.setup;
    let several = setup.layout.gpus() > 1;
    let quantized = matches!(
        &setup.method,
        Method::Adapter(adapter) if matches!(adapter.base, BaseStorage::Nf4 { .. } | BaseStorage::EightBit)
    );
    let profile = match setup.sharding {
        Sharding::Full | Sharding::Hybrid { .. } if quantized => {
            return Err(cannot(
                TOOL,
                "profile that shards a quantized base",
                "--sharding none, or --emit accelerate",
            ));
        }
        Sharding::Hybrid { group } => {
            return Err(cannot(
                TOOL,
                format!("profile with all sharded in groups of {group}"),
                "--sharding full; --emit accelerate has groups (FSDP)",
            ));
        }
        Sharding::None if zero_file(setup) => {
            return Err(cannot(
                TOOL,
                "offload of what is not sharded",
                "--sharding full",
            ));
        }
        // The Trainer starts DeepSpeed by the file, on processes that are launched plainly.
        _ if zero_file(setup) && several => "multi_gpu",
        _ if !several => "single_gpu",
        Sharding::None => "multi_gpu",
        Sharding::Optimizer => "zero1",
        Sharding::Gradients => "zero2",
        Sharding::Full => "zero3",
    };
    yaml.plain(0, "accelerate_config", profile);
    yaml.plain(0, "num_processes", setup.layout.gpus());
    let (hosts, _) = hosts(plan);
    if hosts > 1 {
        yaml.plain(0, "num_machines", hosts);
    }
    if zero_file(setup) {
        yaml.plain(0, "deepspeed", "ds_config.json");
    }
    Ok(())
}

/// In which numbers weights are loaded and computed with.
fn precision(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    let adapter = matches!(setup.method, Method::Adapter(_));
    let (dtype, autocast) = match setup.recipe {
        Recipe::MixedBf16 => ("float32", Some("bf16")),
        Recipe::PureBf16 => ("bfloat16", Some("bf16")),
        Recipe::Fp16 if adapter => ("float16", Some("fp16")),
        Recipe::Fp16 => ("float32", Some("fp16")),
        Recipe::Fp32 | Recipe::Tf32 => ("float32", None),
        Recipe::Fp8 | Recipe::Fp8Block | Recipe::Nvfp4 => {
            return Err(cannot(
                TOOL,
                format!("recipe {}", setup.recipe.name()),
                "--recipe bf16 or pure-bf16",
            ));
        }
    };
    let wide = matches!(
        &setup.method,
        Method::Adapter(adapter) if adapter.base == BaseStorage::ThirtyTwoBit
    );
    yaml.plain(0, "dtype", if wide { "float32" } else { dtype });
    // TRL's default is BF16.
    yaml.plain(0, "bf16", autocast == Some("bf16"));
    if autocast == Some("fp16") {
        yaml.plain(0, "fp16", true);
    }
    if setup.recipe == Recipe::Tf32 {
        yaml.plain(0, "tf32", true);
    }
    Ok(())
}

fn liger(setup: &TrainingSetup) -> Result<bool, EmitError> {
    match setup.loss {
        LossKernel::Eager => Ok(false),
        LossKernel::Chunked => Ok(true),
        LossKernel::Fused | LossKernel::VocabularyParallel => Err(cannot(
            TOOL,
            format!("loss {}", setup.loss.name()),
            "--loss eager or chunked",
        )),
    }
}

fn adapters(yaml: &mut Yaml, adapter: &Adapter) -> Result<(), EmitError> {
    let name = adapter.name.as_deref().unwrap_or(adapter.kind.name());
    let plain = matches!(name, "lora" | "qlora" | "rslora" | "dora" | "qdora");
    if !plain || !matches!(adapter.kind, AdapterKind::Lora | AdapterKind::Dora) {
        return Err(cannot(
            TOOL,
            format!("method {name} on its command line"),
            "lora, qlora, rslora and dora it has; --emit accelerate leaves the method to the script",
        ));
    }
    yaml.plain(0, "use_peft", true);
    if let Some(rank) = adapter.rank {
        yaml.plain(0, "lora_r", rank);
        yaml.plain(0, "lora_alpha", 2 * rank);
    }
    if !adapter.modules.is_empty() {
        yaml.list(0, "lora_target_modules", &adapter.modules);
    }
    if adapter.kind == AdapterKind::Dora {
        yaml.plain(0, "use_dora", true);
    }
    if name == "rslora" {
        yaml.plain(0, "use_rslora", true);
    }
    match adapter.base {
        BaseStorage::SixteenBit | BaseStorage::ThirtyTwoBit => {}
        BaseStorage::EightBit => yaml.plain(0, "load_in_8bit", true),
        BaseStorage::Nf4 { double } => {
            yaml.plain(0, "load_in_4bit", true);
            yaml.plain(0, "bnb_4bit_quant_type", "nf4");
            yaml.plain(0, "use_bnb_nested_quant", double);
        }
    }
    Ok(())
}

/// Sequences, pairs or completions.
fn trained(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    match &setup.alignment {
        None => {
            yaml.plain(0, "max_length", setup.sequence.0);
            yaml.plain(0, "packing", true);
            yaml.plain(0, "activation_offloading", setup.offload.activations);
        }
        Some(Alignment::Dpo { precomputed }) => {
            yaml.plain(0, "max_length", setup.sequence.0);
            yaml.plain(0, "precompute_ref_log_probs", precomputed);
            yaml.plain(0, "activation_offloading", setup.offload.activations);
        }
        Some(Alignment::Grpo(_)) if setup.offload.activations => {
            return Err(cannot(
                TOOL,
                "offload of activations in GRPO",
                "--offload optimizer or parameters",
            ));
        }
        Some(Alignment::Grpo(grpo)) => rollouts(yaml, setup, grpo),
    }
    Ok(())
}

fn rollouts(yaml: &mut Yaml, setup: &TrainingSetup, grpo: &Grpo) {
    yaml.plain(0, "num_generations", grpo.generations);
    yaml.plain(0, "max_completion_length", grpo.completion);
    yaml.plain(0, "beta", grpo.beta);
    yaml.plain(0, "use_vllm", true);
    yaml.plain(0, "vllm_mode", grpo.engine.mode.name());
    if grpo.engine.mode == RolloutMode::Colocate {
        yaml.plain(0, "vllm_gpu_memory_utilization", grpo.engine.share);
        yaml.plain(0, "vllm_tensor_parallel_size", grpo.engine.tensor);
        yaml.plain(0, "vllm_max_model_length", setup.sequence.0);
        yaml.plain(0, "vllm_enable_sleep_mode", grpo.engine.sleeps);
    }
}
