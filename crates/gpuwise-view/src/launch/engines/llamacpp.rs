//! llama.cpp: whole layers on each GPU, a cache that is allocated at start for every slot.

use super::{Launcher, Pool, defaults_note};
use crate::launch::{EmitError, arguments::Arguments};
use gpuwise_units::Bytes;

/// More layers than any model has: all of them on GPUs, in every build.
const ALL_LAYERS: u32 = 999;

pub(super) struct LlamaCpp;

impl Launcher for LlamaCpp {
    fn model_is_a_word(&self) -> bool {
        false
    }

    fn image_starts_server(&self) -> bool {
        true
    }

    fn flags(
        &self,
        pool: &Pool<'_>,
        arguments: &mut Arguments<'_>,
        notes: &mut Vec<String>,
    ) -> Result<(), EmitError> {
        let (layout, settings) = (&pool.layout, &pool.deployment.settings);
        if pool.role.is_some() {
            return Err(arguments.unsupported(
                "prefill and decode are not served apart: start servers that do both",
            ));
        }
        if layout.attention_data > 1 || layout.expert > 1 || layout.decode_context > 1 {
            return Err(arguments.unsupported(format!(
                "{layout}: it splits layers (PP) or rows (TP) over GPUs and nothing else"
            )));
        }
        if layout.tensor > 1 && layout.pipeline > 1 {
            return Err(arguments.unsupported(format!(
                "{layout}: it splits either layers (PP) or rows (TP), not both"
            )));
        }
        model(pool, arguments, notes);
        arguments.set("n_gpu_layers", ALL_LAYERS)?;
        let gpus = layout.replica_gpus();
        if gpus > 1 {
            arguments.set(
                "split_mode",
                if layout.tensor > 1 { "row" } else { "layer" },
            )?;
            arguments.set("tensor_split", vec!["1"; gpus as usize].join(","))?;
        }
        let cache = match pool.deployment.cache_key() {
            "bf16" => "f16",
            "fp32" => "f32",
            other => other,
        };
        arguments.set("cache_type_k", cache)?;
        arguments.set("cache_type_v", cache)?;
        let slots = slots(pool, notes);
        arguments.set("max_num_seqs", slots)?;
        if settings.max_context > 0 {
            // Every slot has its part of it.
            arguments.set("max_model_len", settings.max_context.saturating_mul(slots))?;
        }
        let logical = pool.default_number("n_batch").unwrap_or(0.0) as u64;
        arguments.set("n_batch", logical.max(settings.batched_tokens))?;
        arguments.set("n_ubatch", settings.batched_tokens)?;
        if pool.draft_tokens() > 0 {
            arguments.set("num_speculative_tokens", pool.draft_tokens())?;
            match pool.draft_model() {
                Some(model) => draft_model(model, cache, arguments, notes)?,
                None => notes.push("name the draft model with --model-draft".into()),
            }
        }
        if pool.host_cache() > Bytes::ZERO {
            let mebibytes = pool.host_cache_of(gpus).count() >> 20;
            arguments.set("kv_offloading_size_mib", mebibytes)?;
        }
        if pool.deployment.adapters.is_some() {
            notes.push("add the adapters with --lora PATH, one flag each".into());
        }
        let defaults = [
            ("flash_attn", "flash attention"),
            ("cont_batching", "continuous batching"),
        ];
        defaults_note(pool, &defaults, notes);
        Ok(())
    }
}

/// A GGUF file of the model that drafts, whole on the GPUs, with the model's cache format.
fn draft_model(
    model: &str,
    cache: &str,
    arguments: &mut Arguments<'_>,
    notes: &mut Vec<String>,
) -> Result<(), EmitError> {
    arguments.set("draft_model", model)?;
    arguments.set("draft_n_gpu_layers", ALL_LAYERS)?;
    arguments.set("draft_cache_type_k", cache)?;
    arguments.set("draft_cache_type_v", cache)?;
    if !model.to_ascii_lowercase().ends_with(".gguf") {
        notes.push(format!(
            "llama.cpp reads GGUF: put the file of a GGUF conversion of {model} in its place"
        ));
    }
    Ok(())
}

/// Sequences at once: no more than it can be built for, nor than the cache holds, which is allocated
/// whole at start.
fn slots(pool: &Pool<'_>, notes: &mut Vec<String>) -> u64 {
    let (settings, memory) = (&pool.deployment.settings, &pool.deployment.memory);
    let held = memory.cache_tokens.checked_div(settings.max_context);
    let most = pool
        .default_number("parallel_limit")
        .map(|limit| limit as u64);
    let slots = settings
        .sequences
        .min(held.unwrap_or(u64::MAX))
        .min(most.unwrap_or(u64::MAX))
        .max(1);
    if slots < settings.sequences {
        notes.push(format!(
            "{slots} slots: as many as the cache holds of {} tokens each, and no more than the server takes",
            settings.max_context
        ));
    }
    slots
}

/// A GGUF file, or a repository with one in this format.
fn model(pool: &Pool<'_>, arguments: &mut Arguments<'_>, notes: &mut Vec<String>) {
    let model = &pool.deployment.model;
    if model.to_ascii_lowercase().ends_with(".gguf") {
        arguments
            .flags
            .push(("--model".into(), Some(model.clone())));
        return;
    }
    let format = pool.deployment.weights.to_ascii_uppercase();
    // Mixtures are named by the size they come in.
    let format = if format.ends_with("_K") {
        format!("{format}_M")
    } else {
        format
    };
    arguments
        .flags
        .push(("--hf-repo".into(), Some(format!("{model}:{format}"))));
    notes.push(format!(
        "llama.cpp reads GGUF: put the repository of a GGUF conversion of {model} in its place"
    ));
}
