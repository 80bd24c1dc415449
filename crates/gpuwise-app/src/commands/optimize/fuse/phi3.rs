//! Llama and Mistral as Phi-3: the same computation, with queries, keys and values in one matrix, gate and up in
//! another. `Phi3Attention` and `Phi3MLP` of transformers 5.24; of vLLM `phi3.py`, which is Llama with other names.

use serde_json::{Map, Value, json};

pub(super) const NAME: &str = "Phi3ForCausalLM";

/// What a missing field means: of `LlamaConfig` and `MistralConfig` alike. Phi-3 means other things by some of them.
const DEFAULTS: [(&str, &str); 6] = [
    ("hidden_act", "\"silu\""),
    ("rms_norm_eps", "1e-6"),
    ("initializer_range", "0.02"),
    ("pad_token_id", "null"),
    ("bos_token_id", "1"),
    ("eos_token_id", "2"),
];
/// What has to be said.
const ASKED: [&str; 6] = [
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
];
/// What Phi-3 does not have; where it is set it is refused before.
const DROPPED: [&str; 4] = ["attention_bias", "mlp_bias", "pretraining_tp", "auto_map"];

/// Rows and columns by the configuration.
pub(super) struct Sizes {
    pub(super) hidden: u64,
    queries: u64,
    keys: u64,
    between: u64,
}

fn whole(config: &Value, field: &str) -> Result<u64, String> {
    let number = config.get(field).and_then(Value::as_u64);
    let number = number.filter(|number| (1..1 << 32).contains(number));
    number.ok_or_else(|| format!("config.json: `{field}` is not said, or no whole number above 0"))
}

impl Sizes {
    pub(super) fn of(config: &Value) -> Result<Self, String> {
        let hidden = whole(config, "hidden_size")?;
        let heads = whole(config, "num_attention_heads")?;
        let head = match config.get("head_dim") {
            Some(_) => whole(config, "head_dim")?,
            None => hidden / heads,
        };
        Ok(Self {
            hidden,
            queries: heads * head,
            keys: whole(config, "num_key_value_heads")? * head,
            between: whole(config, "intermediate_size")?,
        })
    }

    pub(super) fn shape(&self, part: &str) -> [u64; 2] {
        let rows = match part {
            "self_attn.q_proj" => self.queries,
            "self_attn.k_proj" | "self_attn.v_proj" => self.keys,
            _ => self.between,
        };
        [rows, self.hidden]
    }
}

/// The configuration of the same model as Phi-3.
///
/// # Errors
/// When it is no such model: what it has that Phi-3 has not.
pub(super) fn config(config: &Value) -> Result<Value, String> {
    let architecture = config.pointer("/architectures/0").and_then(Value::as_str);
    let kind = match architecture {
        Some("LlamaForCausalLM") => "llama",
        Some("MistralForCausalLM") => "mistral",
        Some(NAME) => return Err(format!("it is {NAME}: its files are fused already")),
        other => {
            return Err(format!(
                "{} has no equal whose files hold these fused: {NAME} has no biases, no norms of queries and keys and no experts, and only Llama and Mistral are like it",
                other.unwrap_or("what config.json names no architecture of")
            ));
        }
    };
    for field in ["attention_bias", "mlp_bias"] {
        if config.get(field) == Some(&json!(true)) {
            return Err(format!(
                "config.json: `{field}` is true, and {NAME} has no biases"
            ));
        }
    }
    positions(config)?;
    let mut fused = config.as_object().cloned().unwrap_or_default();
    for field in DROPPED {
        fused.remove(field);
    }
    for field in ASKED {
        whole(config, field)?;
    }
    for (field, value) in DEFAULTS {
        set(&mut fused, field, || value.parse().unwrap_or(Value::Null));
    }
    if fused.get("head_dim").is_some_and(Value::is_null) {
        fused.remove("head_dim");
    }
    if fused.get("num_key_value_heads").is_none_or(Value::is_null) {
        let heads = match kind {
            "mistral" => json!(8),
            _ => fused["num_attention_heads"].clone(),
        };
        fused.insert("num_key_value_heads".into(), heads);
    }
    set(&mut fused, "tie_word_embeddings", || json!(false));
    match kind {
        "mistral" => set(&mut fused, "sliding_window", || json!(4096)),
        _ => {
            fused.insert("sliding_window".into(), Value::Null);
        }
    }
    // Beyond this many tokens Phi-3 begins a cache anew, for scaled positions.
    let longest = fused["max_position_embeddings"].clone();
    fused.insert("original_max_position_embeddings".into(), longest);
    fused.insert("architectures".into(), json!([NAME]));
    fused.insert("model_type".into(), json!("phi3"));
    Ok(Value::Object(fused))
}

fn set(fused: &mut Map<String, Value>, field: &str, value: impl FnOnce() -> Value) {
    if !fused.contains_key(field) {
        fused.insert(field.into(), value());
    }
}

/// Phi-3 has plain rotary positions, and those of LongRoPE.
fn positions(config: &Value) -> Result<(), String> {
    for field in ["rope_scaling", "rope_parameters"] {
        let Some(said) = config.get(field).filter(|said| !said.is_null()) else {
            continue;
        };
        let kind = said.get("rope_type").or_else(|| said.get("type"));
        if kind.is_some_and(|kind| kind != "default") {
            let kind = kind.unwrap_or(&Value::Null);
            return Err(format!(
                "config.json: `{field}` scales positions by {kind}, which {NAME} does not know"
            ));
        }
    }
    let part = |of: &Value| of.get("partial_rotary_factor").and_then(Value::as_f64);
    let part = part(config).or_else(|| part(&config["rope_parameters"]));
    if part.is_some_and(|part| (part - 1.0).abs() > f64::EPSILON) {
        return Err("config.json: `partial_rotary_factor` is not 1".into());
    }
    Ok(())
}
