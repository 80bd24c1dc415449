//! What a safetensors header alone says of a model: sizes always, heads only where a norm of a
//! head's width shows them.

use super::{
    Naming, Place, StoredTensor,
    module::{Kind, Names},
    packing, with_header,
};
use crate::config::{ConfigError, read_config_value};
use gpuwise_domain::model::Architecture;
use gpuwise_units::Parameters;
use serde_json::json;

/// More layers do not exist; the limit bounds the work of reading them one by one.
const MOST_LAYERS: u64 = 4096;

/// Why tensors alone lead to no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InferError {
    /// No decoder's embedding and layers.
    #[error(
        "the header has no token embedding and numbered layers: it is not that of a language model with usual names"
    )]
    NotALanguageModel,
    /// What decides memory for the cache is not in a header.
    #[error(
        "the header shows {layers} layers of width {hidden}, a vocabulary of {vocabulary} and {parameters} parameters, but not {unknown}: put the model's config.json beside the file"
    )]
    NeedsConfig {
        layers: u64,
        /// Width of the residual stream.
        hidden: u64,
        /// Rows of the embedding.
        vocabulary: u64,
        parameters: Parameters,
        /// What the header does not show.
        unknown: &'static str,
    },
    /// What the header shows makes no model that can be.
    #[error("the tensors make no configuration of a model that can be")]
    Config(#[from] ConfigError),
}

/// The architecture of a dense decoder from its tensors alone, where they show it, with what they
/// store.
///
/// # Errors
/// When it is no language model, or heads or chosen experts do not show: a configuration is needed.
pub fn architecture_from_tensors(tensors: &[StoredTensor]) -> Result<Architecture, InferError> {
    let last = last_layer(tensors);
    let embedding = tensors
        .iter()
        .find(|tensor| tensor.shape.len() == 2 && is_embedding(&tensor.name));
    let (Some(last @ 0..MOST_LAYERS), Some(embedding)) = (last, embedding) else {
        return Err(InferError::NotALanguageModel);
    };
    let layers = last + 1;
    let (vocabulary, hidden) = (embedding.shape[0], embedding.last());
    let names = Names::new(tensors, Naming::HuggingFace, layers);
    let unknown = |what: &'static str| InferError::NeedsConfig {
        layers,
        hidden,
        vocabulary,
        parameters: Parameters(parameters(tensors, &names)),
        unknown: what,
    };
    let in_last = |suffix: &str| {
        tensors
            .iter()
            .find(|t| layer_index(&t.name) == Some(last) && t.name.ends_with(suffix))
    };
    if tensors.iter().any(|tensor| tensor.name.contains("experts")) {
        return Err(unknown("how many experts work on a token"));
    }
    let rows = |suffix: &str| in_last(suffix)?.shape.first().copied();
    let width = rows(".mlp.gate_proj.weight");
    let heads = heads(
        rows(".self_attn.q_proj.weight"),
        rows(".self_attn.k_proj.weight"),
        in_last(".self_attn.q_norm.weight").map(StoredTensor::elements),
    );
    let (
        Some(Heads {
            dim,
            query,
            key_value,
        }),
        Some(width),
    ) = (heads, width)
    else {
        return Err(unknown("the number of heads"));
    };
    let four_norms = in_last(".pre_feedforward_layernorm.weight").is_some();
    let config = json!({
        "model_type": if four_norms { "gemma3_text" } else { "qwen3" },
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": vocabulary,
        "num_attention_heads": query,
        "num_key_value_heads": key_value,
        "head_dim": dim,
        "intermediate_size": width,
        "tie_word_embeddings": !tensors.iter().any(|tensor| tensor.name.starts_with("lm_head.")),
    });
    let mut architecture = read_config_value(&config)?;
    architecture.assumptions.push(
        "no configuration: shapes are those of the tensors, every layer sees the whole context, and the longest context is unknown".into(),
    );
    Ok(with_header(architecture, tensors))
}

struct Heads {
    dim: u64,
    query: u64,
    key_value: u64,
}

/// Heads by the rows of query and key, and the width of the norm on a head.
fn heads(query: Option<u64>, key: Option<u64>, norm: Option<u64>) -> Option<Heads> {
    let dim = norm?;
    let whole = |rows: u64| {
        let heads = rows.checked_div(dim)?;
        (heads * dim == rows).then_some(heads)
    };
    let (query, key_value) = (whole(query?)?, whole(key?)?);
    // One norm over all heads says nothing of their number.
    (query > 1).then_some(Heads {
        dim,
        query,
        key_value,
    })
}

/// The last layer of the decoder itself.
fn last_layer(tensors: &[StoredTensor]) -> Option<u64> {
    // A layer with a projection of two streams predicts further tokens.
    let predicts = |t: &&StoredTensor| t.name.contains("eh_proj") || t.name.contains("shared_head");
    let layer_of = |tensor: &StoredTensor| layer_index(&tensor.name);
    let first_prediction = tensors.iter().filter(predicts).filter_map(layer_of).min();
    tensors
        .iter()
        .filter_map(layer_of)
        .filter(|layer| first_prediction.is_none_or(|first| *layer < first))
        .max()
}

fn is_embedding(name: &str) -> bool {
    [
        "embed_tokens.weight",
        "wte.weight",
        "tok_embeddings.weight",
        "embed_in.weight",
        "word_embeddings.weight",
    ]
    .iter()
    .any(|ending| name.ends_with(ending))
}

fn layer_index(name: &str) -> Option<u64> {
    let mut parts = name.split('.');
    while let Some(part) = parts.next() {
        match part {
            "layers" | "h" | "blocks" => return parts.next()?.parse().ok(),
            "visual" | "vision_tower" | "vision_model" | "encoder" | "audio_tower" | "mtp" => {
                return None;
            }
            _ => {}
        }
    }
    None
}

fn parameters(tensors: &[StoredTensor], names: &Names<'_>) -> u64 {
    tensors.iter().fold(0, |sum, tensor| {
        let elements = match names.place(tensor) {
            (Place::Prediction | Place::Buffer(_), _) | (_, Kind::Scale) => 0,
            _ => packing::weight(tensor, names)
                .map_or(1, |weight| weight.per_item)
                .saturating_mul(tensor.elements()),
        };
        sum.saturating_add(elements)
    })
}
