//! torchtune 0.7.0, keys read in `pytorch/torchtune@bd2a0fc7c31430972728494fa01aaeeb0ebf1ba1`:
//! `recipes/{full_finetune,lora_finetune}_distributed.py`, `recipes/configs/llama3_1/8B_lora.yaml`,
//! `recipes/configs/llama3/8B_dora.yaml`.

use super::{EmitError, Yaml, cannot, heading, hosts, only_data, only_texts};
use gpuwise_domain::{
    training::{
        Adapter, AdapterKind, BaseStorage, LossKernel, Method, Optimizer, Recipe, Recompute,
        Sharding, TrainingSetup,
    },
    training_plan::TrainingPlan,
};

const TOOL: &str = "torchtune";

pub(super) fn recipe(plan: &TrainingPlan) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_texts(TOOL, setup)?;
    only_data(TOOL, setup)?;
    let mut yaml = Yaml::default();
    heading(&mut yaml, plan, "torchtune 0.7.0");
    yaml.comment(&command(plan));
    yaml.comment(
        "Put it over the configuration of your model; data, paths and learning rate are its own.",
    );
    if let Method::Adapter(adapter) = &setup.method {
        model(&mut yaml, adapter)?;
    }
    yaml.open(0, "tokenizer");
    yaml.plain(1, "max_seq_len", setup.sequence.0);
    yaml.open(0, "dataset");
    yaml.plain(1, "packed", true);
    yaml.plain(0, "batch_size", setup.micro_batch);
    yaml.plain(0, "gradient_accumulation_steps", setup.accumulation());
    yaml.open(0, "optimizer");
    yaml.plain(1, "_component_", optimizer(setup.optimizer));
    yaml.open(0, "loss");
    yaml.plain(1, "_component_", loss(setup.loss)?);
    precision(&mut yaml, setup)?;
    let checkpointed = match setup.recompute {
        Recompute::None => false,
        Recompute::Full => true,
        Recompute::Selective => {
            return Err(cannot(
                TOOL,
                "recomputation of attention alone",
                "--recompute none or full",
            ));
        }
    };
    yaml.plain(0, "enable_activation_checkpointing", checkpointed);
    yaml.plain(0, "enable_activation_offloading", setup.offload.activations);
    yaml.plain(0, "compile", setup.compiled);
    if plan.gpus > 1 {
        sharding(&mut yaml, setup)?;
    } else if setup.offload.parameters || setup.offload.optimizer {
        return Err(cannot(
            TOOL,
            "offload on one GPU",
            "two GPUs at least, or no --offload",
        ));
    }
    Ok(yaml.0)
}

fn command(plan: &TrainingPlan) -> String {
    let (hosts, each) = hosts(plan);
    let kind = match plan.setup.method {
        Method::Full => "full_finetune",
        Method::Adapter(_) => "lora_finetune",
    };
    if plan.gpus == 1 {
        format!("tune run {kind}_single_device --config THIS")
    } else if hosts == 1 {
        format!("tune run --nproc_per_node {each} {kind}_distributed --config THIS")
    } else {
        format!(
            "tune run --nnodes {hosts} --nproc_per_node {each} {kind}_distributed --config THIS"
        )
    }
}

/// torchtune's names of the modules that LoRA sits on.
fn model(yaml: &mut Yaml, adapter: &Adapter) -> Result<(), EmitError> {
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
    let usual = adapter.modules.is_empty();
    let has = |name: &str| adapter.modules.iter().any(|module| module == name);
    let attention: Vec<String> = [
        ("q_proj", "q_proj"),
        ("k_proj", "k_proj"),
        ("v_proj", "v_proj"),
        ("o_proj", "output_proj"),
    ]
    .into_iter()
    .filter(|(theirs, _)| {
        if usual {
            matches!(*theirs, "q_proj" | "v_proj")
        } else {
            has(theirs)
        }
    })
    .map(|(_, ours)| ours.to_owned())
    .collect();
    let mlp = ["gate_proj", "up_proj", "down_proj"].map(has);
    let some = mlp.contains(&true);
    if some && mlp.contains(&false) {
        return Err(cannot(
            TOOL,
            "adapters on a part of the MLP",
            "all of gate_proj, up_proj and down_proj, or none",
        ));
    }
    let known = [
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "lm_head",
    ];
    if let Some(other) = adapter
        .modules
        .iter()
        .find(|module| !known.contains(&module.as_str()))
    {
        return Err(cannot(
            TOOL,
            format!("adapters on {other}"),
            format!("modules it has are {}", known.join(", ")),
        ));
    }
    yaml.open(0, "model");
    yaml.list(1, "lora_attn_modules", &attention);
    yaml.plain(1, "apply_lora_to_mlp", some);
    yaml.plain(1, "apply_lora_to_output", has("lm_head"));
    if let Some(rank) = adapter.rank {
        yaml.plain(1, "lora_rank", rank);
        yaml.plain(1, "lora_alpha", 2 * rank);
    }
    if dora {
        yaml.plain(1, "use_dora", true);
    }
    match adapter.base {
        BaseStorage::SixteenBit | BaseStorage::ThirtyTwoBit => {}
        BaseStorage::Nf4 { .. } => yaml.plain(1, "quantize_base", true),
        BaseStorage::EightBit => {
            return Err(cannot(
                TOOL,
                "base in 8-bit integers",
                "--method qlora stores it in NF4",
            ));
        }
    }
    Ok(())
}

fn optimizer(optimizer: Optimizer) -> &'static str {
    match optimizer {
        Optimizer::AdamW => "torch.optim.AdamW",
        Optimizer::AdamW8bit => "bitsandbytes.optim.AdamW8bit",
        Optimizer::PagedAdamW => "bitsandbytes.optim.PagedAdamW",
        Optimizer::PagedAdamW8bit => "bitsandbytes.optim.PagedAdamW8bit",
        Optimizer::Adafactor => "torch.optim.Adafactor",
        Optimizer::Lion => "bitsandbytes.optim.Lion",
        Optimizer::Sgd => "torch.optim.SGD",
        Optimizer::Muon => "torch.optim.Muon",
    }
}

fn loss(loss: LossKernel) -> Result<&'static str, EmitError> {
    match loss {
        LossKernel::Chunked => Ok("torchtune.modules.loss.LinearCrossEntropyLoss"),
        LossKernel::Eager | LossKernel::Fused => Ok("torch.nn.CrossEntropyLoss"),
        LossKernel::VocabularyParallel => Err(cannot(
            TOOL,
            "loss divided over a TP group",
            "--loss chunked",
        )),
    }
}

fn precision(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    let adapter = matches!(setup.method, Method::Adapter(_));
    match setup.recipe {
        Recipe::PureBf16 => yaml.plain(0, "dtype", "bf16"),
        Recipe::MixedBf16 if adapter => yaml.plain(0, "dtype", "bf16"),
        Recipe::Fp32 | Recipe::Tf32 => yaml.plain(0, "dtype", "fp32"),
        Recipe::Fp8 if !adapter => {
            yaml.plain(0, "dtype", "bf16");
            yaml.plain(0, "enable_fp8_training", true);
            yaml.plain(0, "fp8_recipe_name", "tensorwise");
        }
        other => {
            return Err(cannot(
                TOOL,
                format!("recipe {} for this method", other.name()),
                "--recipe pure-bf16: it keeps weights and states in the type it computes in",
            ));
        }
    }
    Ok(())
}

fn sharding(yaml: &mut Yaml, setup: &TrainingSetup) -> Result<(), EmitError> {
    let data = setup.layout.data;
    let (replicate, shard, reshard) = match setup.sharding {
        Sharding::Full => (1, data, true),
        Sharding::Gradients => (1, data, false),
        Sharding::Hybrid { group } => (data / group.max(1), group, true),
        Sharding::None | Sharding::Optimizer => {
            return Err(cannot(
                TOOL,
                format!("training with {}", setup.sharding.words()),
                "--sharding full or gradients",
            ));
        }
    };
    yaml.plain(0, "data_parallel_replicate_dim", replicate);
    yaml.plain(0, "data_parallel_shard_dim", shard);
    yaml.plain(0, "fsdp_reshard_after_forward", reshard);
    let off = &setup.offload;
    if off.parameters != off.optimizer {
        return Err(cannot(
            TOOL,
            "offload of weights without the optimizer, or the reverse",
            "--offload optimizer,parameters",
        ));
    }
    yaml.plain(0, "fsdp_cpu_offload", off.parameters);
    Ok(())
}
