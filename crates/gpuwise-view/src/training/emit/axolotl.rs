//! Axolotl 0.18.0, keys read in `axolotl-ai-cloud/axolotl@067b021c8b87a9e5e380b9173c704cf7340e30f5`:
//! `src/axolotl/utils/schemas/{config,training,peft,fsdp,enums}.py`, `integrations/liger`; names of
//! optimizers are those of transformers' `OptimizerNames`.

use super::{EmitError, Yaml, cannot, heading, hosts, only_data, only_texts, optimizer_name};
use gpuwise_domain::{
    training::{
        Adapter, AdapterKind, BaseStorage, LossKernel, Method, Recipe, Recompute, Sharding,
        TrainingSetup,
    },
    training_plan::TrainingPlan,
};

const TOOL: &str = "Axolotl";

pub(super) fn recipe(plan: &TrainingPlan) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_texts(TOOL, setup)?;
    only_data(TOOL, setup)?;
    let mut yaml = Yaml::default();
    heading(&mut yaml, plan, "Axolotl 0.18.0");
    let (hosts, each) = hosts(plan);
    yaml.comment(&format!(
        "{hosts} {} with {each} processes each: axolotl train THIS",
        if hosts == 1 { "host" } else { "hosts" }
    ));
    yaml.comment("Add base_model, datasets, learning_rate and output_dir.");
    yaml.plain(0, "sequence_len", setup.sequence.0);
    yaml.plain(0, "sample_packing", true);
    yaml.plain(0, "pad_to_sequence_len", true);
    yaml.plain(0, "micro_batch_size", setup.micro_batch);
    yaml.plain(0, "gradient_accumulation_steps", setup.accumulation());
    if let Method::Adapter(adapter) = &setup.method {
        adapters(&mut yaml, adapter)?;
    }
    // Axolotl brings a Muon of its own.
    yaml.plain(
        0,
        "optimizer",
        optimizer_name(setup.optimizer).unwrap_or("muon"),
    );
    precision(&mut yaml, setup)?;
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
    if setup.offload.activations {
        yaml.plain(0, "activation_offloading", true);
    }
    yaml.plain(0, "torch_compile", setup.compiled);
    match setup.loss {
        LossKernel::Chunked => {
            yaml.list(
                0,
                "plugins",
                &["axolotl.integrations.liger.LigerPlugin".into()],
            );
            yaml.plain(0, "liger_fused_linear_cross_entropy", true);
        }
        LossKernel::Eager | LossKernel::Fused => {}
        LossKernel::VocabularyParallel => {
            return Err(cannot(
                TOOL,
                "loss divided over a TP group",
                "--loss chunked",
            ));
        }
    }
    sharding(&mut yaml, plan)?;
    Ok(yaml.0)
}

fn adapters(yaml: &mut Yaml, adapter: &Adapter) -> Result<(), EmitError> {
    let dora = match adapter.kind {
        AdapterKind::Lora => false,
        AdapterKind::Dora => true,
        other => {
            return Err(cannot(
                TOOL,
                format!("method {}", other.name()),
                "lora, qlora and dora it has; --emit accelerate leaves the method to the script",
            ));
        }
    };
    match adapter.base {
        BaseStorage::Nf4 { .. } => {
            yaml.plain(0, "adapter", "qlora");
            yaml.plain(0, "load_in_4bit", true);
        }
        BaseStorage::EightBit => {
            yaml.plain(0, "adapter", "lora");
            yaml.plain(0, "load_in_8bit", true);
        }
        BaseStorage::SixteenBit | BaseStorage::ThirtyTwoBit => yaml.plain(0, "adapter", "lora"),
    }
    if let Some(rank) = adapter.rank {
        yaml.plain(0, "lora_r", rank);
        yaml.plain(0, "lora_alpha", 2 * rank);
    }
    if adapter.modules.is_empty() {
        yaml.list(
            0,
            "lora_target_modules",
            &["q_proj".into(), "v_proj".into()],
        );
    } else {
        yaml.list(0, "lora_target_modules", &adapter.modules);
    }
    if dora {
        yaml.plain(0, "peft_use_dora", true);
    }
    Ok(())
}

fn precision(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    match setup.recipe {
        Recipe::MixedBf16 => yaml.plain(0, "bf16", true),
        Recipe::PureBf16 => yaml.plain(0, "bfloat16", true),
        Recipe::Fp16 => yaml.plain(0, "fp16", true),
        Recipe::Fp32 => yaml.plain(0, "float32", true),
        Recipe::Tf32 => {
            yaml.plain(0, "float32", true);
            yaml.plain(0, "tf32", true);
        }
        Recipe::Fp8 => {
            yaml.plain(0, "bf16", true);
            yaml.plain(0, "fp8", true);
        }
        Recipe::Fp8Block | Recipe::Nvfp4 => {
            return Err(cannot(
                TOOL,
                format!("recipe {}", setup.recipe.name()),
                "--recipe fp8 or bf16",
            ));
        }
    }
    Ok(())
}

fn sharding(yaml: &mut Yaml, plan: &TrainingPlan) -> Result<(), EmitError> {
    let setup = &plan.setup;
    let (data, off) = (setup.layout.data, &setup.offload);
    let reshard = match setup.sharding {
        Sharding::None if off.optimizer || off.parameters => {
            return Err(cannot(
                TOOL,
                "offload of what is not sharded",
                "--sharding full",
            ));
        }
        // One process, or one for each GPU with everything on each.
        Sharding::None => return Ok(()),
        Sharding::Optimizer => {
            yaml.plain(0, "deepspeed", "deepspeed_configs/zero1.json");
            return Ok(());
        }
        Sharding::Gradients => false,
        Sharding::Full | Sharding::Hybrid { .. } => true,
    };
    let group = match setup.sharding {
        Sharding::Hybrid { group } => group,
        _ => data,
    };
    yaml.plain(0, "dp_shard_size", group);
    if group < data {
        yaml.plain(0, "dp_replicate_size", data / group.max(1));
    }
    yaml.plain(0, "fsdp_version", 2);
    yaml.open(0, "fsdp_config");
    yaml.plain(1, "auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    yaml.plain(1, "reshard_after_forward", reshard);
    yaml.plain(1, "offload_params", off.parameters);
    yaml.plain(1, "state_dict_type", "SHARDED_STATE_DICT");
    Ok(())
}
