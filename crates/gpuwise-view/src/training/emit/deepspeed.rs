//! DeepSpeed 0.19.5, keys read in `deepspeedai/DeepSpeed@cf44300453eb0af79ed84ed8f1cb49d57478bd76`:
//! `deepspeed/runtime/{config,constants,precision_config}.py`, `zero/{config,offload_config}.py`,
//! `activation_checkpointing/config.py`.
//!
//! The optimizer stays the script's (of transformers `optim`), as does which layers are checkpointed.

use super::{EmitError, cannot, only_data};
use gpuwise_domain::{
    training::{Method, Optimizer, Recipe, Recompute, Sharding, TrainingSetup},
    training_plan::TrainingPlan,
};
use serde_json::{Map, Value, json};

const TOOL: &str = "DeepSpeed";

pub(super) fn recipe(plan: &TrainingPlan) -> Result<String, EmitError> {
    let setup = &plan.setup;
    only_data(TOOL, setup)?;
    let stage = stage(setup)?;
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("train_batch_size", setup.global_batch.into());
    put("train_micro_batch_size_per_gpu", setup.micro_batch.into());
    put("gradient_accumulation_steps", setup.accumulation().into());
    let half = sixteen_bits(setup)?;
    put("bf16", json!({ "enabled": half == Some("bf16") }));
    if half == Some("fp16") {
        // A loss scale of 0 is a dynamic one.
        put("fp16", json!({ "enabled": true, "loss_scale": 0 }));
    }
    put("zero_optimization", zero(setup, stage)?);
    match setup.recompute {
        Recompute::None => {}
        Recompute::Full => {
            put(
                "activation_checkpointing",
                json!({
                    "partition_activations": false,
                    "cpu_checkpointing": setup.offload.activations,
                }),
            );
        }
        Recompute::Selective => {
            return Err(cannot(
                TOOL,
                "recomputation of attention alone",
                "--recompute none or full",
            ));
        }
    }
    let text = serde_json::to_string_pretty(&Value::Object(out)).unwrap_or_default();
    Ok(text + "\n")
}

/// The stage of ZeRO.
fn stage(setup: &TrainingSetup) -> Result<u8, EmitError> {
    match setup.sharding {
        Sharding::None => Ok(0),
        Sharding::Optimizer => Ok(1),
        Sharding::Gradients => Ok(2),
        Sharding::Full => Ok(3),
        Sharding::Hybrid { group } => Err(cannot(
            TOOL,
            format!("stage of ZeRO with all sharded in groups of {group} alone"),
            "--sharding full; --emit accelerate has groups (FSDP)",
        )),
    }
}

/// The format of 16 bits that it computes in. It keeps FP32 weights and moments beside by itself.
fn sixteen_bits(setup: &TrainingSetup) -> Result<Option<&'static str>, EmitError> {
    let adapter = matches!(setup.method, Method::Adapter(_));
    match setup.recipe {
        Recipe::MixedBf16 => Ok(Some("bf16")),
        Recipe::Fp16 => Ok(Some("fp16")),
        // What is trained has FP32 states; the base has none.
        Recipe::PureBf16 if adapter => Ok(Some("bf16")),
        Recipe::Fp32 | Recipe::Tf32 => Ok(None),
        other => Err(cannot(
            TOOL,
            format!("recipe {} for this method", other.name()),
            "--recipe bf16: it keeps FP32 weights and moments beside BF16",
        )),
    }
}

fn zero(setup: &TrainingSetup, stage: u8) -> Result<Value, EmitError> {
    let off = &setup.offload;
    if off.optimizer && stage == 0 {
        return Err(cannot(
            TOOL,
            "offload of the optimizer without ZeRO",
            "--sharding optimizer, gradients or full",
        ));
    }
    if off.parameters && stage != 3 {
        return Err(cannot(
            TOOL,
            "offload of weights that are not sharded",
            "--sharding full",
        ));
    }
    if off.optimizer && setup.optimizer != Optimizer::AdamW {
        return Err(cannot(
            TOOL,
            format!("step of {} on the host", setup.optimizer.name()),
            "--optimizer adamw, which it has there (DeepSpeedCPUAdam)",
        ));
    }
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("stage", stage.into());
    if stage >= 2 {
        put("overlap_comm", true.into());
        put("contiguous_gradients", true.into());
    }
    if stage == 3 {
        put("stage3_gather_16bit_weights_on_model_save", true.into());
    }
    let host = || json!({ "device": "cpu", "pin_memory": true });
    if off.optimizer {
        put("offload_optimizer", host());
    }
    if off.parameters {
        put("offload_param", host());
    }
    Ok(Value::Object(out))
}
