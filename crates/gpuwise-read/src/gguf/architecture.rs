//! From GGUF metadata to an architecture, by way of the configuration that it was converted from.

use super::{GgufHeader, GgufValue, families, keys::Keys, mixers};
use crate::config::{ConfigError, read_config_value};
use gpuwise_domain::model::Architecture;
use serde_json::{Map, Value, json};

/// llama.cpp itself takes 512; the limit bounds the work of reading them one by one.
const MOST_BLOCKS: u64 = 4096;

/// Why a header leads to no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchitectureError {
    /// The key that names the architecture is absent.
    #[error("`general.architecture` is missing: the header does not say what the model is")]
    Unnamed,
    /// A file that holds no language model.
    #[error("the file holds {0}, not a language model")]
    NotALanguageModel(String),
    #[error(
        "this is part {part} of {parts} of a split file: read all parts and append their headers, because the others hold the remaining tensors"
    )]
    Part {
        /// The part, from 1.
        part: u64,
        parts: u64,
    },
    /// A key that is needed is absent.
    #[error("`{0}` is missing")]
    Missing(String),
    /// More layers than any model has.
    #[error("`{key}` is {count}; no model has more than {MOST_BLOCKS} layers")]
    Layers { key: String, count: u64 },
    /// The keys make no model that can be.
    #[error("its metadata makes no configuration of a model that can be")]
    Config(#[from] ConfigError),
}

/// Reads the architecture of a header. Sizes of the weights are not in it:
/// [`with_gguf`](crate::stored::with_gguf) adds them.
///
/// # Errors
/// When the file is no language model, is one part of several, or lacks the usual keys.
pub fn architecture(header: &GgufHeader) -> Result<Architecture, ArchitectureError> {
    let name = header
        .text("general.architecture")
        .ok_or(ArchitectureError::Unnamed)?;
    refuse_others(header, name)?;
    let keys = Keys::new(header, name);
    let config = if name == "t5" {
        mixers::encoder_decoder(&keys)?
    } else {
        decoder(&keys)?
    };
    let mut architecture = read_config_value(&Value::Object(config))?;
    if let Some(differing) = differing_layers(&keys) {
        architecture.assumptions.push(differing);
    }
    Ok(architecture)
}

/// The number of layers under a key, if it can be.
pub(super) fn blocks(keys: &Keys<'_>, key: &str) -> Result<Option<u64>, ArchitectureError> {
    match keys.some(key) {
        Some(count) if count > MOST_BLOCKS => Err(ArchitectureError::Layers {
            key: format!("{}.{key}", keys.name),
            count,
        }),
        other => Ok(other),
    }
}

fn refuse_others(header: &GgufHeader, name: &str) -> Result<(), ArchitectureError> {
    let other = |what: &str| Err(ArchitectureError::NotALanguageModel(what.into()));
    if let Some((part, parts)) = header.part()
        && part + 1 != parts
    {
        return Err(ArchitectureError::Part {
            part: part + 1,
            parts,
        });
    }
    match header.text("general.type") {
        Some("adapter") => return other("an adapter: give the model that it adapts"),
        Some("mmproj") => {
            return other("a vision or audio tower: give the language model beside it");
        }
        Some("imatrix") => return other("an importance matrix"),
        Some("vocab") => return other("a vocabulary without weights"),
        _ => {}
    }
    match name {
        "clip" => other("a vision or audio tower: give the language model beside it"),
        "rwkv6" | "rwkv6qwen2" | "rwkv7" | "arwkv7" => other("an RWKV model, which is not sized,"),
        "wavtokenizer-dec" | "t5encoder" | "gemma-embedding" => other("an encoder"),
        encoder if encoder.contains("bert") => other("an encoder"),
        _ => Ok(()),
    }
}

/// The fields that decoders share.
fn decoder(keys: &Keys<'_>) -> Result<Map<String, Value>, ArchitectureError> {
    let need = |key: &str| {
        keys.some(key)
            .ok_or_else(|| ArchitectureError::Missing(format!("{}.{key}", keys.name)))
    };
    let blocks = blocks(keys, "block_count")?
        .ok_or_else(|| ArchitectureError::Missing(format!("{}.block_count", keys.name)))?;
    // Prediction layers are counted among the blocks.
    let predicted = keys
        .count("nextn_predict_layers")
        .unwrap_or(0)
        .min(blocks - 1);
    let layers = blocks - predicted;
    let hidden = need("embedding_length")?;
    let vocabulary = keys
        .vocabulary()
        .ok_or_else(|| ArchitectureError::Missing("token_embd.weight".into()))?;
    let mut config = Map::new();
    let mut put = |name: &str, value: Option<u64>| {
        if let Some(value) = value {
            config.insert(name.into(), value.into());
        }
    };
    put("hidden_size", Some(hidden));
    put("num_hidden_layers", Some(layers));
    put("vocab_size", Some(vocabulary));
    put(
        "num_nextn_predict_layers",
        Some(predicted).filter(|count| *count > 0),
    );
    put("max_position_embeddings", keys.some("context_length"));
    put("num_attention_heads", keys.some("attention.head_count"));
    put("num_key_value_heads", keys.some("attention.head_count_kv"));
    let head_dim = keys.some("attention.key_length");
    put("head_dim", head_dim);
    put(
        "v_head_dim",
        keys.some("attention.value_length")
            .filter(|dim| Some(*dim) != head_dim),
    );
    put("intermediate_size", keys.some("feed_forward_length"));
    put("sliding_window", keys.some("attention.sliding_window"));
    experts(keys, &mut put);
    let tied = keys.shape("output.weight").is_none();
    config.insert("tie_word_embeddings".into(), tied.into());
    for (name, tensors) in [
        ("attention_bias", ["attn_q.bias", "attn_qkv.bias"]),
        ("mlp_bias", ["ffn_up.bias", "ffn_down.bias"]),
        ("use_qk_norm", ["attn_q_norm.weight", "attn_k_norm.weight"]),
    ] {
        let present = tensors.iter().any(|tensor| keys.has(tensor));
        config.insert(name.into(), present.into());
    }
    rotary(keys, hidden, &mut config);
    windows(keys, layers, &mut config);
    kv_heads_by_layer(keys, layers, &mut config);
    config.insert("model_type".into(), families::model_type(keys).into());
    families::own_fields(keys, layers, &mut config);
    mixers::fields(keys, layers, &mut config);
    Ok(config)
}

fn experts(keys: &Keys<'_>, put: &mut impl FnMut(&str, Option<u64>)) {
    let Some(count) = keys.some("expert_count") else {
        return;
    };
    // Readers of different families look under different names.
    for name in ["num_experts", "n_routed_experts"] {
        put(name, Some(count));
    }
    put("num_experts_per_tok", keys.some("expert_used_count"));
    // Some files leave a width to the shapes of the tensors.
    let rows = |suffix: &str| keys.layer_shape(suffix)?.iter().rev().nth(1).copied();
    put(
        "moe_intermediate_size",
        keys.some("expert_feed_forward_length")
            .or_else(|| rows("ffn_up_exps.weight")),
    );
    let shared_count = keys.some("expert_shared_count");
    put("n_shared_experts", shared_count);
    let shared = keys.some("expert_shared_feed_forward_length");
    let unstated = || {
        if shared_count.is_none() {
            rows("ffn_up_shexp.weight")
        } else {
            None
        }
    };
    put("shared_expert_intermediate_size", shared.or_else(unstated));
    put(
        "first_k_dense_replace",
        keys.some("leading_dense_block_count"),
    );
    put(
        "interleave_moe_layer_step",
        keys.some("interleave_moe_layer_step"),
    );
}

fn rotary(keys: &Keys<'_>, hidden: u64, config: &mut Map<String, Value>) {
    let heads = keys.some("attention.head_count");
    let dim = keys
        .some("attention.key_length")
        .or_else(|| heads.map(|heads| hidden / heads));
    if let (Some(rotary), Some(dim)) = (keys.some("rope.dimension_count"), dim)
        && 0 < rotary
        && rotary < dim
    {
        config.insert(
            "partial_rotary_factor".into(),
            json!(rotary as f64 / dim as f64),
        );
    }
}

/// Which layers see a window only, where the header says it: a flag a layer, or a period.
fn windows(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    if keys.some("attention.sliding_window").is_none() {
        return;
    }
    match keys.value("attention.sliding_window_pattern") {
        Some(GgufValue::List(flags)) if flags.len() as u64 >= layers => {
            let kinds: Vec<&str> = flags
                .iter()
                .map(|flag| {
                    let sliding = *flag == GgufValue::Flag(true)
                        || flag.count().is_some_and(|count| count > 0);
                    if sliding {
                        "sliding_attention"
                    } else {
                        "full_attention"
                    }
                })
                .collect();
            config.insert("layer_types".into(), json!(kinds));
        }
        Some(period) => {
            if let Some(period) = period.count().filter(|period| *period > 0) {
                config.insert("sliding_window_pattern".into(), period.into());
            }
        }
        None => {}
    }
}

/// Key-value heads a layer, where they differ and every layer has some.
fn kv_heads_by_layer(keys: &Keys<'_>, layers: u64, config: &mut Map<String, Value>) {
    let Some(counts) = keys.uneven("attention.head_count_kv") else {
        return;
    };
    if counts.len() as u64 >= layers
        && !counts.contains(&0)
        && keys.uneven("attention.head_count").is_none()
    {
        config.insert("num_key_value_heads_per_layer".into(), json!(counts));
    }
}

/// What is said when layers differ in a way that the family's reader does not follow.
fn differing_layers(keys: &Keys<'_>) -> Option<String> {
    let uneven = |key: &str| keys.uneven(key).is_some();
    let followed = matches!(keys.name, "deci" | "nemotron_h" | "nemotron_h_moe");
    let heads = uneven("attention.head_count") && !followed;
    let widths = uneven("feed_forward_length") && !followed && keys.name != "gemma4";
    (heads || widths).then(|| {
        format!(
            "the layers of this {:?} model differ in {}; the largest is taken for all of them",
            keys.name,
            if heads { "heads" } else { "width" }
        )
    })
}
