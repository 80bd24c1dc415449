//! TensorRT-LLM: flags for sizes, a settings file for the rest.

use super::{Launcher, Pool, defaults_note, quantized_elsewhere};
use crate::launch::{EmitError, arguments::Arguments};
use gpuwise_domain::facts::{PoolRole, Value as Fact};
use gpuwise_units::Bytes;
use serde_json::{Value, json};

pub(super) struct TensorRtLlm;

impl Launcher for TensorRtLlm {
    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError> {
        let (layout, settings) = (&pool.layout, &pool.deployment.settings);
        if layout.attention_data > 1 && layout.tensor > 1 {
            return Err(arguments.unsupported(
                "attention is split over all tensor-parallel ranks or repeated on each, not both: take TP or DP alone",
            ));
        }
        arguments.set("tensor_parallel_size", layout.stage_gpus())?;
        arguments.ranks("pipeline_parallel_size", layout.pipeline)?;
        arguments.ranks("expert_parallel_size", layout.expert)?;
        arguments.ranks("decode_context_parallel_size", layout.decode_context)?;
        arguments.set("max_num_seqs", settings.sequences)?;
        arguments.set("max_num_batched_tokens", settings.batched_tokens)?;
        if settings.max_context > 0 {
            arguments.set("max_model_len", settings.max_context)?;
        }
        arguments.set(
            "kv_cache_free_gpu_memory_fraction",
            settings.memory_fraction,
        )?;
        let cache = match pool.deployment.cache_key() {
            "bf16" => "auto",
            other => other,
        };
        arguments.key("kv_cache_dtype", cache.into())?;
        if pool
            .default_number("block_size")
            .is_some_and(|block| block as u64 != settings.block)
        {
            arguments.key("block_size", settings.block.into())?;
        }
        if layout.attention_data > 1 {
            arguments.key("enable_dp_attention", true.into())?;
        }
        if pool
            .default("enable_chunked_prefill")
            .and_then(Fact::switch)
            != Some(true)
        {
            // Without it a prompt longer than a step is refused.
            arguments.key("enable_chunked_prefill", true.into())?;
        }
        if settings.eager {
            arguments.key("enforce_eager", Value::Null)?;
        }
        drafts(pool, arguments, notes)?;
        if pool.host_cache() > Bytes::ZERO {
            arguments.key("kv_offloading_size_bytes", pool.host_cache().count().into())?;
        }
        if let Some(adapters) = pool.deployment.adapters {
            arguments.key("enable_lora", true.into())?;
            arguments.key(
                "lora_config",
                json!({"max_lora_rank": adapters.rank, "max_loras": adapters.count}),
            )?;
        }
        if let Some(role) = pool.role {
            let role = if role == PoolRole::Prefill {
                "CONTEXT"
            } else {
                "GENERATION"
            };
            arguments.set("disaggregation_mode", role)?;
            arguments.key("disaggregation_transfer_backend", "DEFAULT".into())?;
        }
        if !pool.deployment.weights_published {
            quantized_elsewhere(pool, notes);
        }
        let defaults = [
            ("backend", "backend"),
            ("enable_prefix_caching", "prefix caching"),
            ("cuda_graph_max_bs", "CUDA graphs up to batch"),
            ("capacity_scheduler_policy", "admission"),
        ];
        defaults_note(pool, &defaults, notes);
        Ok(())
    }
}

fn drafts(
    pool: &Pool<'_>,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    let drafts = pool.draft_tokens();
    if drafts == 0 {
        return Ok(());
    }
    let Some(model) = pool.draft_model() else {
        notes.push("drafts come from the model's own prediction layers".into());
        return arguments.key(
            "speculative_config",
            json!({"decoding_type": "MTP", "num_nextn_predict_layers": drafts}),
        );
    };
    let release = pool.deployment.release;
    let told = if pool.facts.behaves("draft_target_by_directory", release) {
        notes.push(format!(
            "put the directory that {model} was loaded into in its place"
        ));
        json!({"decoding_type": "DraftTarget", "max_draft_len": drafts, "speculative_model_dir": model})
    } else {
        json!({"decoding_type": "Draft_Target", "max_draft_len": drafts, "speculative_model": model})
    };
    arguments.key("speculative_config", told)
}
