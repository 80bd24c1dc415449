//! Hugging Face `config.json` to [`Architecture`].
//!
//! Known model types are read as their reference implementation builds them (transformers 5.23), so
//! that counts are exact; an unknown type with the usual fields is read as a Llama-like decoder, and
//! the result says what was assumed.
//!
//! A reader of a family takes a `Context` and fills in `Parts`; `finish` adds what all have in
//! common. Layers are described once each and merged into runs where they are equal.

mod build;
mod classic;
mod common;
mod compressed;
mod dbrx;
mod delta;
mod encoder_decoder;
mod error;
pub(crate) mod fields;
mod gemma;
mod griffin;
mod hybrid;
mod json;
mod kimi;
mod latent;
mod lightning;
mod longcat;
mod mamba;
mod mllama;
mod other_kinds;
mod quantization;
mod standard;
mod towers;
mod zamba;

pub use error::ConfigError;
pub use json::parse_lenient;
pub use quantization::{format_named, quantization_named};

use fields::Fields;
use gpuwise_domain::{
    model::{Architecture, Encoder, FeedForward, LayerRun, Tensor, Tower},
    precision::WeightFormat,
};
use gpuwise_units::Tokens;
use serde_json::Value;

/// Reads a `config.json` from its text.
///
/// # Errors
/// When it is not JSON, lacks what sizing needs, or holds values that cannot be.
pub fn read_config(text: &str) -> Result<Architecture, ConfigError> {
    read_config_value(&parse_lenient(text)?)
}

/// Reads a `config.json` that is parsed already.
///
/// # Errors
/// As [`read_config`].
pub fn read_config_value(value: &Value) -> Result<Architecture, ConfigError> {
    let whole = Fields::root(value)?;
    // Models that also speak keep what sizing needs in the part that thinks.
    let root = whole.object("thinker_config")?.unwrap_or(whole);
    let model_type = root.text("model_type")?.unwrap_or("");
    if other_kinds::is_no_language_model(model_type) {
        return Err(ConfigError::NotALanguageModel(model_type.into()));
    }
    if let Some(read) = encoder_decoder::reader(model_type) {
        return finish(read(root)?, root);
    }
    // Multimodal models keep the language model's fields in an object of their own.
    let nested = match root.object("text_config")? {
        Some(nested) => Some(nested),
        None => match root.object("llm_config")? {
            Some(nested) => Some(nested),
            None => root.object("language_config")?,
        },
    };
    let text = nested.unwrap_or(root);
    let text_type = match (nested, text.text("model_type")?) {
        (_, Some(own)) => own,
        (Some(_), None) if model_type == "llava" || model_type == "llava_next" => "llama",
        _ => model_type,
    };
    let context = Context {
        root,
        text,
        model_type: text_type,
        whole_type: model_type,
    };
    let mut parts = decoder(&context)?;
    towers::add(&context, &mut parts)?;
    finish(parts, root)
}

/// Where fields are found, and which family they describe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) root: Fields<'a>,
    pub(crate) text: Fields<'a>,
    /// The type of the language model.
    pub(crate) model_type: &'a str,
    /// The type of the whole, where it has towers too.
    pub(crate) whole_type: &'a str,
}

impl Context<'_> {
    /// Whether the head is tied: stated beside the language model's fields, or at the top.
    pub(crate) fn tied(&self, default: bool) -> Result<bool, ConfigError> {
        if let Some(tied) = self.text.flag("tie_word_embeddings")? {
            return Ok(tied);
        }
        Ok(self.root.flag("tie_word_embeddings")?.unwrap_or(default))
    }
}

/// What readers of families fill in; the rest is common.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) model_type: String,
    pub(crate) hidden: u64,
    pub(crate) vocabulary: u64,
    pub(crate) tied: bool,
    pub(crate) rotary_elements: u64,
    pub(crate) layers: Vec<LayerRun>,
    pub(crate) outside: Vec<Tensor>,
    pub(crate) prediction: Vec<LayerRun>,
    pub(crate) encoder: Option<Encoder>,
    pub(crate) towers: Vec<Tower>,
    pub(crate) max_context: Option<u64>,
    pub(crate) assumptions: Vec<String>,
}

/// A reader of one family.
type Reader = fn(&Context<'_>) -> Result<Parts, ConfigError>;

fn decoder(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let model_type = context.model_type;
    let families = [
        classic::reader,
        gemma::reader,
        delta::reader,
        kimi::reader,
        mamba::reader,
        hybrid::reader,
        griffin::reader,
        zamba::reader,
        lightning::reader,
        longcat::reader,
        compressed::reader,
        dbrx::reader,
        mllama::reader,
    ];
    if let Some(read) = families.iter().find_map(|family| family(model_type)) {
        return read(context);
    }
    if latent::is_latent(context)? {
        return latent::read(context);
    }
    standard::read(context)
}

fn finish(parts: Parts, root: Fields<'_>) -> Result<Architecture, ConfigError> {
    let text = root.object("text_config")?;
    let mut assumptions = parts.assumptions;
    let native = native_format(root, text, &mut assumptions)?;
    let quantization = quantization::read(root, text)?;
    let has_experts = parts
        .layers
        .iter()
        .any(|run| matches!(run.layer.feed_forward, FeedForward::Experts { .. }));
    let architecture = Architecture {
        model_type: parts.model_type,
        hidden: parts.hidden,
        vocabulary: parts.vocabulary,
        tied_head: parts.tied,
        max_context: parts.max_context.map(Tokens),
        rotary_elements: parts.rotary_elements,
        layers: parts.layers,
        outside: parts.outside,
        encoder: parts.encoder,
        towers: parts.towers,
        prediction: parts.prediction,
        native,
        quantization: quantization.map(|q| quantization::narrowed(q, has_experts)),
        stored: None,
        assumptions,
    };
    check_total(&architecture)?;
    Ok(architecture)
}

fn native_format(
    root: Fields<'_>,
    text: Option<Fields<'_>>,
    assumptions: &mut Vec<String>,
) -> Result<WeightFormat, ConfigError> {
    let stated = |name: &'static str| -> Result<Option<&str>, ConfigError> {
        match text.map(|t| t.text(name)).transpose()?.flatten() {
            Some(inner) => Ok(Some(inner)),
            None => root.text(name),
        }
    };
    let written = match stated("torch_dtype")? {
        Some(written) => Some(written),
        None => stated("dtype")?,
    };
    Ok(match written {
        Some("float32" | "torch.float32" | "fp32") => WeightFormat::F32,
        Some("float16" | "torch.float16" | "half" | "fp16") => WeightFormat::F16,
        Some("bfloat16" | "torch.bfloat16" | "bf16" | "auto") | None => WeightFormat::BF16,
        Some(other) => {
            assumptions.push(format!(
                "weights in bf16, because dtype {other:?} is unknown"
            ));
            WeightFormat::BF16
        }
    })
}

/// Refuses shapes whose sizes would overflow: no model has 10^16 parameters.
fn check_total(architecture: &Architecture) -> Result<(), ConfigError> {
    let mut total: u128 = 0;
    for (repeat, tensor) in architecture.tensors() {
        let factors = [repeat, tensor.rows, tensor.columns, tensor.copies];
        let elements = factors.iter().fold(1_u128, |product, factor| {
            product.saturating_mul(u128::from(*factor))
        });
        total = total.saturating_add(elements);
    }
    if total > 10_000_000_000_000_000 {
        return Err(ConfigError::Contradiction(format!(
            "these dimensions make {total} parameters; no model has that many: check the fields"
        )));
    }
    Ok(())
}
