//! vLLM.

use super::{
    Launcher, Pool, checkpoint_may_ask, defaults_note, host_cache_elsewhere, quantized_elsewhere,
};
use crate::launch::{
    EmitError,
    arguments::Arguments,
    hosts::{HostArgument, Hosts},
};
use gpuwise_domain::facts::{PoolRole, Value as Fact};
use gpuwise_units::Bytes;
use serde_json::json;

pub(super) struct Vllm;

/// Where data-parallel engines of other hosts report to the first, as vLLM's documents have it.
const DATA_PARALLEL_PORT: u16 = 13345;

impl Launcher for Vllm {
    fn package(&self) -> Option<&'static str> {
        Some("vllm")
    }

    /// `docs/serving/parallelism_scaling.md` and `data_parallel_deployment.md` of vLLM: tensor and
    /// pipeline ranks span hosts by their place, data-parallel ranks by the first rank of each host.
    fn hosts(
        &self,
        pool: &Pool<'_>,
        arguments: &Arguments<'_>,
        count: u32,
        gpus: u32,
    ) -> Result<Hosts, EmitError> {
        let layout = &pool.layout;
        let flag = |setting: &str, said: HostArgument| -> Result<_, EmitError> {
            let told = match &said {
                HostArgument::Text(text) => text.as_str(),
                _ => "of each host",
            };
            Ok((arguments.flag(setting, told)?, Some(said)))
        };
        let headless = (arguments.flag("headless", "on")?, None);
        if layout.attention_data <= 1 {
            return Ok(Hosts {
                count,
                gpus,
                flags: vec![
                    flag("nnodes", HostArgument::Text(count.to_string()))?,
                    flag("node_rank", HostArgument::Place)?,
                    flag("master_addr", HostArgument::Leader)?,
                ],
                others: vec![headless],
            });
        }
        let rank = layout.tensor * layout.pipeline;
        if rank > gpus || !gpus.is_multiple_of(rank) {
            return Err(arguments.unsupported(format!(
                "a data-parallel rank of {rank} GPUs does not lie within a host of {gpus}"
            )));
        }
        let local = gpus / rank;
        Ok(Hosts {
            count,
            gpus,
            flags: vec![
                flag(
                    "data_parallel_size_local",
                    HostArgument::Text(local.to_string()),
                )?,
                flag("data_parallel_address", HostArgument::Leader)?,
                flag(
                    "data_parallel_rpc_port",
                    HostArgument::Text(DATA_PARALLEL_PORT.to_string()),
                )?,
            ],
            others: vec![
                headless,
                flag("data_parallel_start_rank", HostArgument::RanksBefore(local))?,
            ],
        })
    }

    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError> {
        let (layout, settings) = (&pool.layout, &pool.deployment.settings);
        arguments.set("tensor_parallel_size", layout.tensor)?;
        arguments.ranks("pipeline_parallel_size", layout.pipeline)?;
        arguments.ranks("data_parallel_size", layout.attention_data)?;
        arguments.ranks("decode_context_parallel_size", layout.decode_context)?;
        if layout.expert > 1 {
            if layout.expert != layout.stage_gpus() {
                return Err(arguments.unsupported(format!(
                    "experts are spread over all {} ranks of a stage or over none, not over {}",
                    layout.stage_gpus(),
                    layout.expert
                )));
            }
            arguments.switch("expert_parallel")?;
        }
        weights(pool, arguments, notes)?;
        let cache = match pool.deployment.cache_key() {
            // `auto` is what the checkpoint asks for.
            "bf16" if checkpoint_may_ask(pool) && arguments.takes("kv_cache_dtype", "bfloat16") => {
                "bfloat16"
            }
            "bf16" => "auto",
            "int8" => "int8_per_token_head",
            other => other,
        };
        arguments.set("kv_cache_dtype", cache)?;
        arguments.set("gpu_memory_utilization", settings.memory_fraction)?;
        if settings.max_context > 0 {
            arguments.set("max_model_len", settings.max_context)?;
        }
        arguments.set("max_num_seqs", settings.sequences)?;
        arguments.set("max_num_batched_tokens", settings.batched_tokens)?;
        if pool
            .default("enable_chunked_prefill")
            .and_then(Fact::switch)
            == Some(false)
        {
            arguments.switch("enable_chunked_prefill")?;
        }
        if pool
            .default_number("block_size")
            .is_some_and(|block| block as u64 != settings.block)
        {
            arguments.set("block_size", settings.block)?;
        }
        if settings.eager {
            arguments.switch("enforce_eager")?;
        }
        drafts(pool, arguments, notes)?;
        host_cache(pool, arguments, notes)?;
        if let Some(adapters) = pool.deployment.adapters {
            arguments.switch("enable_lora")?;
            arguments.set("max_loras", adapters.count)?;
            rank(arguments, adapters.rank)?;
            notes.push("add the adapters with --lora-modules NAME=PATH …".into());
        }
        if let Some(role) = pool.role {
            let role = if role == PoolRole::Prefill {
                "kv_producer"
            } else {
                "kv_consumer"
            };
            arguments.set(
                "kv_transfer_config",
                json!({"kv_connector": "NixlConnector", "kv_role": role}),
            )?;
        }
        let defaults = [
            ("enable_chunked_prefill", "chunked prefill"),
            ("enable_prefix_caching", "prefix caching"),
            ("cudagraph_mode", "CUDA graphs"),
            ("block_size", "tokens of a KV block:"),
        ];
        defaults_note(pool, &defaults, notes);
        Ok(())
    }
}

/// What can be quantized when loading is; the rest needs a checkpoint.
fn weights(
    pool: &Pool<'_>,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    let format = pool.deployment.weights.as_str();
    if format == "fp32" && arguments.takes("weight_dtype", "float32") {
        return arguments.set("weight_dtype", "float32");
    }
    if !pool.has_bf16() {
        arguments.set("weight_dtype", "half")?;
        notes.push("this GPU has no BF16: what is stored in it is cast to FP16".into());
    }
    if pool.deployment.weights_published {
        return Ok(());
    }
    let (setting, name) = match format {
        "fp8" => ("quantization", "fp8"),
        "fp8-block" => ("quantization", "fp8_per_block"),
        "mxfp8" => ("quantization", "mxfp8"),
        "int8-w8a16" => ("quantization", "int8_per_channel_weight_only"),
        "nf4" => ("quantization", "bitsandbytes"),
        "bf16" => ("weight_dtype", "bfloat16"),
        "fp16" if !pool.has_bf16() => return Ok(()),
        "fp16" => ("weight_dtype", "float16"),
        _ => ("", ""),
    };
    if arguments.takes(setting, name) {
        return arguments.set(setting, name);
    }
    quantized_elsewhere(pool, notes);
    Ok(())
}

fn drafts(
    pool: &Pool<'_>,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    let tokens = pool.draft_tokens();
    if tokens == 0 {
        return Ok(());
    }
    if !arguments.has("speculative_config") {
        if let Some(model) = pool.draft_model() {
            arguments.set("draft_model", model)?;
        }
        return arguments.set("num_speculative_tokens", tokens);
    }
    if let Some(model) = pool.draft_model() {
        return arguments.set(
            "speculative_config",
            json!({"method": "draft_model", "model": model, "num_speculative_tokens": tokens}),
        );
    }
    notes.push(
        "drafts come from the model's own prediction layers; for a draft model, name it: \
         {\"method\": \"draft_model\", \"model\": …}"
            .into(),
    );
    arguments.set(
        "speculative_config",
        json!({"method": "mtp", "num_speculative_tokens": tokens}),
    )
}

/// The flag counts the host memory of all ranks of an engine together; a connector that passes the
/// cache on to another pool takes its place.
fn host_cache(
    pool: &Pool<'_>,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    if pool.host_cache() == Bytes::ZERO {
        return Ok(());
    }
    if pool.role.is_some() {
        let how = "name NixlConnector and OffloadingConnector together as a MultiConnector in --kv-transfer-config";
        host_cache_elsewhere(pool, how, notes);
        return Ok(());
    }
    if !arguments.has("kv_offloading_size_gib") {
        let how = "name OffloadingConnector in --kv-transfer-config";
        host_cache_elsewhere(pool, how, notes);
        return Ok(());
    }
    let ranks = pool.layout.tensor * pool.layout.pipeline;
    arguments.set("kv_offloading_size_gib", pool.host_cache_of(ranks).gib())?;
    arguments.set("kv_offloading_backend", "native")
}

/// The smallest rank that the flag takes and that holds the adapters'.
fn rank(arguments: &mut Arguments<'_>, wanted: u32) -> Result<(), EmitError> {
    let taken = (wanted..=wanted.saturating_mul(4))
        .find(|rank| arguments.takes("max_lora_rank", &rank.to_string()));
    arguments.set("max_lora_rank", taken.unwrap_or(wanted))
}
