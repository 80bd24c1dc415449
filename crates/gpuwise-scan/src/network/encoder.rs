//! BERT and its relatives, CLIP, language models that are run whole, recommenders.

use super::Reader;
use crate::config::{ConfigError, fields::Fields, read_config_value};
use gpuwise_domain::network::{
    BertHead, ClipText, Component, LanguagePart, Recommender, Shape, TextEncoder, TransformerSize,
    VisionHead, VisionTransformer,
};
use serde_json::Value;

pub(super) fn reader(class: &str) -> Option<Reader> {
    let bert = ["Bert", "Roberta", "XLMRoberta", "Camembert"];
    if bert.iter().any(|family| {
        class
            .strip_prefix(family)
            .is_some_and(|rest| rest == "Model" || rest.starts_with("For"))
    }) {
        return Some(text);
    }
    Some(match class {
        "bert" | "roberta" | "xlm-roberta" | "camembert" => text,
        "CLIPTextModel" | "CLIPTextModelWithProjection" | "clip_text_model" => clip_text,
        "CLIPVisionModel" | "CLIPVisionModelWithProjection" | "clip_vision_model" => clip_vision,
        "DLRM" | "DLRM_DCN" | "dlrm" => recommender,
        _ if language_part(class).is_some() => language,
        _ => return None,
    })
}

/// How a language model of this class is run.
fn language_part(class: &str) -> Option<LanguagePart> {
    if class.ends_with("EncoderModel") {
        return Some(LanguagePart::Encoder);
    }
    let families = [
        "T5",
        "MT5",
        "UMT5",
        "Whisper",
        "Bart",
        "MBart",
        "Pegasus",
        "Blenderbot",
    ];
    let crossed = families
        .iter()
        .any(|family| class == format!("{family}ForConditionalGeneration"));
    if crossed || ["t5", "mt5", "umt5", "whisper", "bart", "mbart"].contains(&class) {
        return Some(LanguagePart::Whole);
    }
    let decoders = [
        "Llama",
        "Mistral",
        "Mistral3",
        "Qwen2",
        "Qwen3",
        "Gemma",
        "Gemma2",
        "Gemma3",
        "Gemma3Text",
        "Phi3",
        "Qwen2_5_VL",
        "Llava",
    ];
    let rest = decoders.iter().find_map(|family| {
        let rest = class.strip_prefix(family)?;
        (rest == "Model" || rest == "TextModel" || rest.starts_with("For")).then_some(rest)
    })?;
    Some(match rest {
        "ForCausalLM" | "ForConditionalGeneration" => LanguagePart::Decoder,
        _ => LanguagePart::Body,
    })
}

fn language(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let mut value = Value::Object(root.copied());
    if root.text("model_type")?.is_none() {
        value["model_type"] = Value::String(class.into());
    }
    let part = language_part(class).unwrap_or(LanguagePart::Decoder);
    Ok(Shape::Language(Box::new(read_config_value(&value)?), part))
}

fn size(root: Fields<'_>) -> Result<TransformerSize, ConfigError> {
    let hidden = root.need(&["hidden_size"], "width of the model")?;
    let heads = root.need(&["num_attention_heads"], "attention")?;
    if !hidden.is_multiple_of(heads) {
        return Err(ConfigError::Contradiction(format!(
            "`hidden_size` {hidden} is no multiple of `num_attention_heads` {heads}"
        )));
    }
    Ok(TransformerSize {
        layers: root.layers(&["num_hidden_layers"])?,
        hidden,
        heads,
        width: root.need(&["intermediate_size"], "width of the feed-forward")?,
    })
}

/// Classes that are scored: stated, or those that have names; two where neither is.
pub(super) fn labels(root: Fields<'_>) -> Result<u64, ConfigError> {
    if let Some(stated) = root.count(&["num_labels"])? {
        return Ok(stated);
    }
    let named = root.object("id2label")?;
    Ok(named.map_or(2, |named| named.names().count().max(1) as u64))
}

fn text(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let robust = class.to_lowercase().contains("roberta") || class.to_lowercase() == "camembert";
    let ends = |end: &str| class.ends_with(end);
    let head = if ends("ForPreTraining") {
        BertHead::PreTraining
    } else if ends("ForMaskedLM") {
        BertHead::Words
    } else if ends("ForQuestionAnswering") {
        BertHead::Spans
    } else if ends("ForTokenClassification") {
        BertHead::TokenClasses(labels(root)?)
    } else if ends("ForSequenceClassification") && robust {
        BertHead::DenseClasses(labels(root)?)
    } else if ends("ForSequenceClassification") {
        BertHead::Classes(labels(root)?)
    } else {
        BertHead::Pooler
    };
    let positions = root.length(&["max_position_embeddings"])?.unwrap_or(512);
    Ok(Shape::Text(TextEncoder {
        size: size(root)?,
        vocabulary: root.vocabulary()?,
        positions,
        // Those up to the padding's own are never used.
        spare_positions: if robust { 2 } else { 0 },
        segments: root.count(&["type_vocab_size"])?.unwrap_or(2),
        head,
    }))
}

fn clip_text(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let root = root.object("text_config")?.unwrap_or(root);
    let projected = class.ends_with("WithProjection");
    let width = root.count(&["projection_dim"])?.unwrap_or(512);
    clip_text_of(root, projected.then_some(width))
}

fn clip_text_of(root: Fields<'_>, projection: Option<u64>) -> Result<Shape, ConfigError> {
    Ok(Shape::ClipText(ClipText {
        size: size(root)?,
        vocabulary: root.length(&["vocab_size"])?.unwrap_or(49408),
        positions: root.length(&["max_position_embeddings"])?.unwrap_or(77),
        projection,
    }))
}

fn clip_vision(root: Fields<'_>, class: &str) -> Result<Shape, ConfigError> {
    let root = root.object("vision_config")?.unwrap_or(root);
    let projected = class.ends_with("WithProjection");
    let width = root.count(&["projection_dim"])?.unwrap_or(512);
    clip_vision_of(root, projected.then_some(width), false)
}

fn clip_vision_of(
    root: Fields<'_>,
    projection: Option<u64>,
    scale: bool,
) -> Result<Shape, ConfigError> {
    Ok(Shape::Vision(VisionTransformer {
        size: size(root)?,
        patch: root.need(&["patch_size"], "side of a patch")?,
        image: root.need(&["image_size"], "side of an image")?,
        channels: root.count(&["num_channels"])?.unwrap_or(3),
        head: VisionHead::Clip { projection, scale },
    }))
}

/// Both towers of CLIP, where a configuration has them.
pub(super) fn towers(root: Fields<'_>, class: &str) -> Result<Option<Vec<Component>>, ConfigError> {
    let (Some(text), Some(vision), true) = (
        root.object("text_config")?,
        root.object("vision_config")?,
        matches!(class, "CLIPModel" | "clip"),
    ) else {
        return Ok(None);
    };
    let width = root.count(&["projection_dim"])?.unwrap_or(512);
    let component = |name: &str, shape| Component {
        name: name.into(),
        shape,
    };
    Ok(Some(vec![
        component("text_model", clip_text_of(text, Some(width))?),
        component("vision_model", clip_vision_of(vision, Some(width), true)?),
    ]))
}

/// Tables and layers of a recommender: far above what is built.
const MOST_TABLES: usize = 10_000;
const MOST_LAYERS: usize = 1_000;

fn recommender(root: Fields<'_>, _: &str) -> Result<Shape, ConfigError> {
    let lists = |name: &'static str| -> Result<Vec<u64>, ConfigError> {
        let widths = root.counts(name)?.ok_or(ConfigError::Missing {
            field: name,
            purpose: "size of the layers",
        })?;
        if widths.len() > MOST_LAYERS || widths.contains(&0) {
            return Err(ConfigError::Contradiction(format!(
                "`{name}` must be at most {MOST_LAYERS} numbers above 0"
            )));
        }
        Ok(widths)
    };
    let rows = root.lengths("num_embeddings_per_feature")?;
    let lookups = match root.counts("multi_hot_sizes")? {
        Some(stated) => stated,
        None => vec![1; rows.len()],
    };
    if lookups.len() != rows.len() {
        return Err(ConfigError::Contradiction(format!(
            "`multi_hot_sizes` has {} entries for {} tables",
            lookups.len(),
            rows.len()
        )));
    }
    if rows.len() > MOST_TABLES {
        return Err(ConfigError::Contradiction(format!(
            "`num_embeddings_per_feature` has {} entries; at most {MOST_TABLES} are read",
            rows.len()
        )));
    }
    let embedding = root.need(&["embedding_dim"], "width of the tables")?;
    let bottom = lists("dense_arch_layer_sizes")?;
    if bottom.last() != Some(&embedding) {
        return Err(ConfigError::Contradiction(format!(
            "the last of `dense_arch_layer_sizes` must be `embedding_dim` {embedding}"
        )));
    }
    Ok(Shape::Recommender(Recommender {
        rows,
        lookups,
        embedding,
        dense_features: root.need(&["dense_in_features"], "width of dense features")?,
        bottom,
        crosses: root.count_or_zero(&["dcn_num_layers"])?.unwrap_or(0),
        cross_rank: root.count(&["dcn_low_rank_dim"])?.unwrap_or(1),
        top: lists("over_arch_layer_sizes")?,
    }))
}
