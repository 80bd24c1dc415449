//! Embeddings that are the head too: what is merged into them would change both.

use super::Found;
use crate::commands::optimize::choose::{self, Fate, Reason};
use gpuwise_compress::Scheme;
use gpuwise_read::safetensors::Place;
use serde_json::Value;

fn kept(name: &str) -> Option<Reason> {
    let tensor = Place {
        name: name.into(),
        dtype: "F32".into(),
        shape: vec![1, 1],
        begin: 0,
        end: 4,
    };
    let asked = choose::Asked {
        scheme: Scheme::Mxfp4,
        keep: &[],
        towers_stay: false,
    };
    match choose::fate(&tensor, asked) {
        Fate::Kept(reason) => Some(reason),
        Fate::Encoded { .. } => None,
    }
}

pub(super) fn embedding(name: &str) -> bool {
    kept(name) == Some(Reason::Embedding)
}

fn positions(name: &str) -> bool {
    name.contains("wpe") || name.contains("position")
}

pub(super) fn head(name: &str) -> bool {
    kept(name) == Some(Reason::Head)
}

/// Whether `name` is both in a model that `config` describes, or counts for nothing there, as the head that is read is the
/// embeddings.
pub(super) fn is_both(name: &str, found: &Found<'_>, config: &Value) -> bool {
    let text = config.get("text_config").unwrap_or(config);
    let tied = |of: &Value| of.get("tie_word_embeddings").and_then(Value::as_bool);
    let tied = tied(config).or_else(|| tied(text));
    let architectures = config["architectures"].to_string();
    let generates = ["LM", "ForConditionalGeneration", "ForPreTraining"];
    let generates = generates.iter().any(|kind| architectures.contains(kind));
    let own = found.keys().any(|name| head(name));
    let embeddings = embedding(name) && !positions(name) && generates;
    (embeddings && (tied == Some(true) || !own)) || (head(name) && tied == Some(true))
}
