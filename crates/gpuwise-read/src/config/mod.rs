//! Hugging Face `config.json` to [`Architecture`].
//!
//! Known model types are read as their reference implementation builds them, so that counts are
//! exact; an unknown type with the usual fields is read as a Llama-like decoder, and the result
//! says what was assumed.

mod build;
mod classic;
mod encoder_decoder;
mod fields;
mod hybrid;
mod latent;
mod quantization;
mod standard;
mod towers;

pub use fields::ConfigError;
pub use quantization::{format_named, quantization_named};

use fields::Fields;
use gpuwise_domain::{
    model::{Architecture, LayerRun, Tensor},
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

/// Parses JSON as Python writes it: `NaN` and `Infinity` outside of strings become texts, which no
/// field that sizing reads accepts, while fields that it skips may hold them.
///
/// # Errors
/// When it is not JSON even so.
pub fn parse_lenient(text: &str) -> Result<Value, ConfigError> {
    let syntax = |error: serde_json::Error| ConfigError::Syntax(error.to_string());
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.contains("NaN") || text.contains("Infinity") => {
            let quoted = quote_specials(text);
            serde_json::from_str(&quoted).map_err(|_| syntax(error))
        }
        Err(error) => Err(syntax(error)),
    }
}

/// Puts quotes around the words that Python's JSON has beyond the standard.
fn quote_specials(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if from.starts_with('"') {
            let end = string_end(from);
            out.push_str(&from[..end]);
            rest = &from[end..];
            continue;
        }
        let special = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| from.starts_with(word));
        let taken = match special {
            Some(word) => {
                out.push('"');
                out.push_str(word);
                out.push('"');
                word.len()
            }
            None => {
                out.push_str(&from[..1]);
                1
            }
        };
        rest = &from[taken..];
    }
    out.push_str(rest);
    out
}

/// The length of the JSON string that `text` begins with, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Reads a `config.json` that is parsed already.
///
/// # Errors
/// As [`read_config`].
pub fn read_config_value(value: &Value) -> Result<Architecture, ConfigError> {
    let root = Fields::root(value)?;
    let model_type = root.text("model_type")?.unwrap_or("");
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
    };
    let mut parts = decoder(&context)?;
    parts.towers = towers::towers(&context, model_type)?;
    finish(parts, root)
}

/// Where fields are found, and which family they describe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) root: Fields<'a>,
    pub(crate) text: Fields<'a>,
    pub(crate) model_type: &'a str,
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
    pub(crate) encoder: Option<gpuwise_domain::model::Encoder>,
    pub(crate) towers: Vec<gpuwise_domain::model::Tower>,
    pub(crate) max_context: Option<u64>,
    pub(crate) assumptions: Vec<String>,
}

fn decoder(context: &Context<'_>) -> Result<Parts, ConfigError> {
    if let Some(read) = classic::reader(context.model_type) {
        return read(context);
    }
    if let Some(read) = hybrid::reader(context.model_type) {
        return read(context);
    }
    if let Some(read) = latent::reader(context)? {
        return read(context);
    }
    standard::read(context)
}

fn finish(parts: Parts, root: Fields<'_>) -> Result<Architecture, ConfigError> {
    let text = root.object("text_config")?;
    let stated = |name: &'static str| -> Result<Option<&str>, ConfigError> {
        if let Some(inner) = text.map(|t| t.text(name)).transpose()?.flatten() {
            return Ok(Some(inner));
        }
        root.text(name)
    };
    let written = match stated("torch_dtype")? {
        Some(written) => Some(written),
        None => stated("dtype")?,
    };
    let mut assumptions = parts.assumptions;
    let native = match written {
        Some("float32" | "torch.float32" | "fp32") => WeightFormat::F32,
        Some("float16" | "torch.float16" | "half" | "fp16") => WeightFormat::F16,
        Some(other) if other.contains("bfloat16") || other == "bf16" => WeightFormat::BF16,
        Some("auto") => WeightFormat::BF16,
        Some(other) => {
            assumptions.push(format!("weights in bf16, because dtype {other:?} is unknown"));
            WeightFormat::BF16
        }
        None => WeightFormat::BF16,
    };
    let quantization = quantization::read(root, text)?;
    let has_experts = parts
        .layers
        .iter()
        .any(|run| matches!(run.layer.feed_forward, gpuwise_domain::model::FeedForward::Experts { .. }));
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

/// Refuses shapes whose sizes would overflow: no model has 10^16 parameters.
fn check_total(architecture: &Architecture) -> Result<(), ConfigError> {
    let mut total: u128 = 0;
    for (repeat, tensor) in architecture.tensors() {
        total += u128::from(repeat)
            * u128::from(tensor.rows)
            * u128::from(tensor.columns)
            * u128::from(tensor.copies);
    }
    if total > 10_000_000_000_000_000 {
        return Err(ConfigError::Contradiction(format!(
            "these dimensions make {total} parameters; no model has that many: check the fields"
        )));
    }
    Ok(())
}
