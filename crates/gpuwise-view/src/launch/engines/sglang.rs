//! SGLang: sequences and tokens are stated for all attention groups together.

use super::{
    Launcher, Pool, checkpoint_may_ask, defaults_note, host_cache_elsewhere, quantized_elsewhere,
};
use crate::launch::{
    EmitError,
    arguments::Arguments,
    hosts::{HostArgument, Hosts},
};
use gpuwise_domain::facts::PoolRole;
use gpuwise_units::Bytes;

pub(super) struct Sglang;

/// Where hosts meet; the port that LeaderWorkerSet's example of SGLang has.
const MEETING_PORT: u16 = 20000;

impl Launcher for Sglang {
    fn package(&self) -> Option<&'static str> {
        Some("sglang")
    }

    /// `docs/examples/sglang` of kubernetes-sigs/lws: the same command on every host, and its place.
    fn hosts(
        &self,
        _: &Pool<'_>,
        arguments: &Arguments<'_>,
        count: u32,
        gpus: u32,
    ) -> Result<Hosts, EmitError> {
        let nodes = count.to_string();
        let address = arguments.flag("dist_init_addr", "of the first host")?;
        Ok(Hosts {
            count,
            gpus,
            flags: vec![
                (address, Some(HostArgument::LeaderAt(MEETING_PORT))),
                (
                    arguments.flag("nnodes", &nodes)?,
                    Some(HostArgument::Text(nodes)),
                ),
                (
                    arguments.flag("node_rank", "of each host")?,
                    Some(HostArgument::Place),
                ),
            ],
            others: Vec::new(),
        })
    }

    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError> {
        let settings = &pool.deployment.settings;
        let groups = u64::from(pool.layout.attention_data.max(1));
        layout(pool, arguments)?;
        weights(pool, arguments, notes)?;
        let cache = match pool.deployment.cache_key() {
            "bf16" if checkpoint_may_ask(pool) && arguments.takes("kv_cache_dtype", "bfloat16") => {
                "bfloat16"
            }
            "bf16" => "auto",
            "fp8" if arguments.takes("kv_cache_dtype", "fp8_e4m3") => "fp8_e4m3",
            "fp8" => "fp8_e5m2",
            "nvfp4" if !arguments.takes("kv_cache_dtype", "nvfp4") => "fp4_e2m1",
            other => other,
        };
        arguments.set("kv_cache_dtype", cache)?;
        arguments.set("mem_fraction_static", settings.memory_fraction)?;
        if settings.max_context > 0 {
            arguments.set("max_model_len", settings.max_context)?;
        }
        arguments.set("max_num_seqs", settings.sequences.saturating_mul(groups))?;
        arguments.set(
            "max_num_batched_tokens",
            settings.batched_tokens.saturating_mul(groups),
        )?;
        if pool
            .default_number("page_size")
            .is_some_and(|page| page as u64 != settings.block)
        {
            arguments.set("block_size", settings.block)?;
        }
        if settings.eager {
            arguments.switch("enforce_eager")?;
        }
        drafts(pool, arguments, notes)?;
        host_cache(pool, arguments, notes)?;
        if let Some(adapters) = pool.deployment.adapters {
            if arguments.has("enable_lora") {
                arguments.switch("enable_lora")?;
            }
            arguments.set("max_loras", adapters.count)?;
            arguments.set("max_lora_rank", adapters.rank)?;
            notes.push("add the adapters with --lora-paths NAME=PATH …".into());
        }
        if let Some(role) = pool.role {
            let role = if role == PoolRole::Prefill {
                "prefill"
            } else {
                "decode"
            };
            arguments.set("disaggregation_mode", role)?;
        }
        let defaults = [
            ("enable_prefix_caching", "prefix caching"),
            ("schedule_policy", "scheduling"),
            ("page_size", "tokens of a KV block:"),
        ];
        defaults_note(pool, &defaults, notes);
        Ok(())
    }
}

fn layout(pool: &Pool<'_>, arguments: &mut Arguments<'_>) -> Result<(), EmitError> {
    let layout = &pool.layout;
    arguments.set("tensor_parallel_size", layout.stage_gpus())?;
    arguments.ranks("pipeline_parallel_size", layout.pipeline)?;
    arguments.ranks("decode_context_parallel_size", layout.decode_context)?;
    if layout.attention_data > 1 {
        if arguments.has("attention_data_parallel_size") {
            arguments.set("attention_data_parallel_size", layout.attention_data)?;
        } else {
            arguments.set("data_parallel_size", layout.attention_data)?;
            arguments.switch("enable_dp_attention")?;
        }
    }
    if layout.expert > 1 {
        if arguments.has("expert_parallel") {
            arguments.switch("expert_parallel")?;
        }
        arguments.set("expert_parallel_size", layout.expert)?;
    }
    Ok(())
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
    if let Some(model) = pool.draft_model() {
        arguments.set("speculative_method", "STANDALONE")?;
        arguments.set("draft_model", model)?;
    } else {
        arguments.set("speculative_method", "NEXTN")?;
        notes.push("drafts come from the model's own prediction layers".into());
    }
    arguments.set("speculative_num_steps", drafts)?;
    arguments.set("speculative_eagle_topk", 1u32)?;
    // The token that is verified counts too.
    arguments.set("num_speculative_tokens", drafts + 1)
}

/// The flag takes whole GB (10⁹ bytes) of each rank.
fn host_cache(
    pool: &Pool<'_>,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    let gigabytes = pool.host_cache().count() / 1_000_000_000;
    if pool.host_cache() == Bytes::ZERO {
        return Ok(());
    }
    arguments.switch("enable_hierarchical_cache")?;
    if gigabytes == 0 || !arguments.has("kv_offloading_size_gib") {
        let how = "--hicache-ratio is what it takes over the cache of the GPU";
        host_cache_elsewhere(pool, how, notes);
        return Ok(());
    }
    arguments.set("kv_offloading_size_gib", gigabytes)
}

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
