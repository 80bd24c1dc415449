//! LMDeploy: the server of its TurboMind engine.

use super::{Launcher, Pool, defaults_note, quantized_elsewhere};
use crate::launch::{EmitError, arguments::Arguments};

pub(super) struct LmDeploy;

impl Launcher for LmDeploy {
    fn package(&self) -> Option<&'static str> {
        Some("lmdeploy")
    }

    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError> {
        let (deployment, layout) = (pool.deployment, &pool.layout);
        let settings = &deployment.settings;
        for (asked, what) in [
            (pool.role.is_some(), "prefill and decode on servers apart"),
            (
                layout.attention_data > 1,
                "attention split over data-parallel ranks",
            ),
            (pool.draft_tokens() > 0, "drafted tokens"),
            (deployment.adapters.is_some(), "LoRA adapters"),
        ] {
            if asked {
                return Err(arguments.unsupported(format!(
                    "TurboMind's server is not started with {what} here"
                )));
            }
        }
        arguments.set("tensor_parallel_size", layout.tensor)?;
        arguments.ranks("pipeline_parallel_size", layout.pipeline)?;
        arguments.ranks("expert_parallel_size", layout.expert)?;
        arguments.ranks("decode_context_parallel_size", layout.decode_context)?;
        let bits = match deployment.cache_key() {
            "bf16" => "0",
            "int8" => "8",
            other => other,
        };
        arguments.set("kv_cache_dtype", bits)?;
        arguments.set(
            "kv_cache_free_gpu_memory_fraction",
            settings.memory_fraction,
        )?;
        if settings.max_context > 0 {
            arguments.set("max_model_len", settings.max_context)?;
        }
        arguments.set("max_num_seqs", settings.sequences)?;
        arguments.set("max_num_batched_tokens", settings.batched_tokens)?;
        arguments.set("block_size", settings.block)?;
        if !pool.has_bf16() {
            arguments.set("weight_dtype", "float16")?;
            notes.push("this GPU has no BF16: what is stored in it is cast to FP16".into());
        }
        if !deployment.weights_published {
            quantized_elsewhere(pool, notes);
        }
        defaults_note(pool, &[("enable_prefix_caching", "prefix caching")], notes);
        Ok(())
    }
}
