//! Hugging Face accelerate 1.15.0.dev0, keys read in
//! `huggingface/accelerate@16cb6eb80dd9aa8b4df1a63ef57863e455d53b83`:
//! `src/accelerate/commands/config/{config_args,cluster}.py`, `examples/config_yaml_templates`.

use super::{EmitError, Yaml, cannot, heading, hosts, only_data, rank};
use gpuwise_domain::{
    training::{Method, Recipe, Recompute, Sharding, TrainingSetup},
    training_plan::TrainingPlan,
};
use std::fmt::Write as _;

const TOOL: &str = "accelerate";

pub(super) fn recipe(plan: &TrainingPlan) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_data(TOOL, setup)?;
    let mut yaml = Yaml::default();
    heading(&mut yaml, plan, "accelerate 1.15");
    yaml.comment("accelerate launch --config_file THIS YOUR_SCRIPT");
    yaml.comment(&script(setup));
    yaml.plain(0, "compute_environment", "LOCAL_MACHINE");
    let (hosts, _) = hosts(plan);
    yaml.plain(0, "num_machines", hosts);
    yaml.plain(0, "num_processes", setup.layout.gpus());
    precision(&mut yaml, setup)?;
    match setup.sharding {
        Sharding::None => {
            let alone = if setup.layout.gpus() == 1 {
                "\"NO\""
            } else {
                "MULTI_GPU"
            };
            yaml.plain(0, "distributed_type", alone);
        }
        Sharding::Optimizer => deepspeed(&mut yaml, setup),
        Sharding::Gradients | Sharding::Full | Sharding::Hybrid { .. } => fsdp(&mut yaml, setup),
    }
    Ok(yaml.0)
}

/// What the script has to set, because the launcher does not.
fn script(setup: &TrainingSetup) -> String {
    let mut out = format!(
        "The script sets: sequences of {} tokens, per_device_train_batch_size {}, \
         gradient_accumulation_steps {}, optimizer {}",
        setup.sequence.0,
        setup.micro_batch,
        setup.accumulation(),
        setup.optimizer.name()
    );
    if let Some(alignment) = &setup.alignment {
        let _ = write!(out, ", {}", alignment.words(setup.sequence.0));
    }
    if let Method::Adapter(adapter) = &setup.method {
        let name = adapter.name.as_deref().unwrap_or(adapter.kind.name());
        let _ = write!(out, ", method {}", name.replace(char::is_control, " "));
        if let Some(rank) = rank(&setup.method) {
            let _ = write!(out, " of rank {rank}");
        }
        if !adapter.modules.is_empty() {
            let _ = write!(
                out,
                " on {}",
                adapter.modules.join(" ").replace(char::is_control, " ")
            );
        }
        let _ = write!(out, ", base in {}", adapter.base.name());
    }
    if setup.recompute != Recompute::None && setup.sharding == Sharding::None {
        out += ", gradient_checkpointing";
    }
    if setup.recipe == Recipe::PureBf16 {
        out += ", weights loaded in bfloat16";
    }
    out + "."
}

fn precision(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    match setup.recipe {
        Recipe::MixedBf16 => yaml.plain(0, "mixed_precision", "bf16"),
        Recipe::Fp16 => yaml.plain(0, "mixed_precision", "fp16"),
        Recipe::PureBf16 | Recipe::Fp32 | Recipe::Tf32 => {
            yaml.plain(0, "mixed_precision", "\"no\"");
        }
        Recipe::Fp8 => {
            yaml.plain(0, "mixed_precision", "fp8");
            yaml.open(0, "fp8_config");
            yaml.plain(1, "backend", "TE");
            yaml.plain(1, "fp8_format", "HYBRID");
        }
        Recipe::Fp8Block | Recipe::Nvfp4 => {
            return Err(cannot(
                TOOL,
                format!("recipe {}", setup.recipe.name()),
                "--recipe fp8 or bf16",
            ));
        }
    }
    if setup.compiled {
        yaml.open(0, "dynamo_config");
        yaml.plain(1, "dynamo_backend", "INDUCTOR");
    }
    Ok(())
}

fn deepspeed(yaml: &mut Yaml, setup: &TrainingSetup) {
    let device = |offloaded: bool| if offloaded { "cpu" } else { "none" };
    yaml.plain(0, "distributed_type", "DEEPSPEED");
    yaml.open(0, "deepspeed_config");
    yaml.plain(1, "zero_stage", 1);
    yaml.plain(1, "gradient_accumulation_steps", setup.accumulation());
    yaml.plain(
        1,
        "offload_optimizer_device",
        device(setup.offload.optimizer),
    );
    yaml.plain(1, "offload_param_device", device(setup.offload.parameters));
}

fn fsdp(yaml: &mut Yaml, setup: &TrainingSetup) {
    yaml.plain(0, "distributed_type", "FSDP");
    yaml.open(0, "fsdp_config");
    yaml.plain(1, "fsdp_version", 2);
    yaml.plain(1, "fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    let reshard = setup.sharding != Sharding::Gradients;
    yaml.plain(1, "fsdp_reshard_after_forward", reshard);
    let off = setup.offload.parameters || setup.offload.optimizer;
    yaml.plain(1, "fsdp_offload_params", off);
    let again = setup.recompute != Recompute::None;
    yaml.plain(1, "fsdp_activation_checkpointing", again);
    yaml.plain(1, "fsdp_state_dict_type", "SHARDED_STATE_DICT");
    if let Sharding::Hybrid { group } = setup.sharding {
        let copies = setup.layout.data / group.max(1);
        yaml.open(0, "parallelism_config");
        yaml.plain(1, "parallelism_config_dp_replicate_size", copies);
        yaml.plain(1, "parallelism_config_dp_shard_size", group);
        yaml.plain(1, "parallelism_config_tp_size", 1);
        yaml.plain(1, "parallelism_config_cp_size", 1);
    }
}
