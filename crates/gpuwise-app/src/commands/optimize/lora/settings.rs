//! `adapter_config.json`: which adapter it is, and how far it counts.

use crate::error::Problem;
use regex::Regex;
use serde_json::{Map, Value};
use std::{fs, path::Path};

pub(super) const FILE: &str = "adapter_config.json";

/// What does not change the weights that are merged, as PEFT 0.21 writes it.
const WITHOUT_EFFECT: [&str; 25] = [
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ephemeral_gpu_offload",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "velora_config",
];
/// What is read here.
const READ: [&str; 5] = [
    "r",
    "lora_alpha",
    "use_rslora",
    "rank_pattern",
    "alpha_pattern",
];

/// What is no such sum, and why.
const REFUSED: [(&str, &str); 8] = [
    (
        "use_dora",
        "DoRA scales each row of the sum by a learned size, which is not merged here",
    ),
    (
        "use_qalora",
        "QA-LoRA adds to means of groups of inputs, which is not merged here",
    ),
    (
        "lora_bias",
        "biases of B would have to be added to biases that the layers may not have",
    ),
    (
        "alora_invocation_tokens",
        "an activated LoRA counts only after certain tokens: no weights do that",
    ),
    (
        "layer_replication",
        "layers are used several times, which changes the model's shape",
    ),
    (
        "target_parameters",
        "it adapts parameters that are no layers, such as experts that lie in one tensor",
    ),
    (
        "trainable_token_indices",
        "single rows of the embeddings were trained, which is not merged here",
    ),
    (
        "ensure_weight_tying",
        "head and embeddings share an adapter, which is not merged here",
    ),
];

/// How it began, where that changes the model's own weights.
const OTHER_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

#[derive(Debug)]
pub(super) struct Settings {
    rank: u64,
    alpha: f64,
    by_root: bool,
    ranks: Vec<(Regex, f64)>,
    alphas: Vec<(Regex, f64)>,
    pub(super) transposed: bool,
    /// Layers that were trained as a whole.
    pub(super) whole: Vec<String>,
    pub(super) biases: bool,
}

fn said(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => !all.is_empty(),
        _ => true,
    }
}

impl Settings {
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let named = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|error| {
            Problem::new(format!("cannot read {named}"))
                .because(error)
                .hint("--lora names a directory as PEFT writes it: adapter_config.json and adapter_model.safetensors")
        })?;
        let all: Map<String, Value> = serde_json::from_str(&text)
            .map_err(|error| Problem::new(format!("{named}: no JSON object")).because(error))?;
        Self::of(&all, &named).map_err(Into::into)
    }

    fn of(all: &Map<String, Value>, named: &str) -> Result<Self, Problem> {
        let refused =
            |what: String, hint: &str| Problem::new(format!("{named}: {what}")).hint(hint);
        if all.get("peft_type").and_then(Value::as_str) != Some("LORA") {
            let kind = all.get("peft_type").unwrap_or(&Value::Null);
            return Err(refused(
                format!("`peft_type` is {kind}, expected \"LORA\""),
                "other kinds of adapters are not merged here: merge it with PEFT",
            ));
        }
        for (field, value) in all.iter().filter(|(_, value)| said(value)) {
            let known = |fields: &[&str]| fields.contains(&field.as_str());
            if known(&READ) || known(&WITHOUT_EFFECT) {
                continue;
            }
            let why = REFUSED.iter().find(|(name, _)| name == field);
            let why = why.map_or(
                "what it does to the weights is not known here",
                |(_, why)| why,
            );
            return Err(refused(
                format!("`{field}` is {value}: {why}"),
                "merge it with PEFT (merge_and_unload), then optimize what that writes",
            ));
        }
        if let Some(how) = all.get("init_lora_weights").and_then(Value::as_str)
            && OTHER_BASE
                .iter()
                .any(|name| how.to_lowercase().starts_with(name))
        {
            return Err(refused(
                format!(
                    "`init_lora_weights` is {how:?}: training began by changing the model's own weights"
                ),
                "save the adapter with `path_initial_model_for_weight_conversion`, which makes it one for the model as it was",
            ));
        }
        let settings = Self::values(all);
        settings.map_err(|what| refused(what, "PEFT writes this file: take the whole directory"))
    }

    fn values(all: &Map<String, Value>) -> Result<Self, String> {
        let rank = all.get("r").and_then(Value::as_u64);
        let rank = rank.filter(|rank| (1..=1 << 20).contains(rank));
        let alpha = all.get("lora_alpha").and_then(Value::as_f64);
        let names = match all.get("modules_to_save") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            Some(_) => None,
        };
        let flag = |name: &str| match all.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(value) => Err(format!("`{name}` is {value}, expected true or false")),
        };
        Ok(Self {
            rank: rank.ok_or("`r` is no rank of 1 or more")?,
            alpha: alpha
                .filter(|one| one.is_finite())
                .ok_or("`lora_alpha` is no number")?,
            by_root: flag("use_rslora")?,
            ranks: pattern(all, "rank_pattern")?,
            alphas: pattern(all, "alpha_pattern")?,
            transposed: flag("fan_in_fan_out")?,
            whole: names.ok_or("`modules_to_save` is no list of names")?,
            biases: matches!(
                all.get("bias").and_then(Value::as_str),
                Some("all" | "lora_only")
            ),
        })
    }

    /// The rank that a layer is to have.
    pub(super) fn rank(&self, layer: &str) -> u64 {
        of_pattern(&self.ranks, layer).map_or(self.rank, |rank| rank as u64)
    }

    /// What the product of a layer is multiplied with.
    pub(super) fn scale(&self, layer: &str) -> f64 {
        let alpha = of_pattern(&self.alphas, layer).unwrap_or(self.alpha);
        let rank = self.rank(layer) as f64;
        alpha / if self.by_root { rank.sqrt() } else { rank }
    }
}

fn of_pattern(patterns: &[(Regex, f64)], layer: &str) -> Option<f64> {
    let mut each = patterns.iter();
    Some(each.find(|(pattern, _)| pattern.is_match(layer))?.1)
}

/// Layers by regular expressions that their names end with; the first that fits counts.
fn pattern(all: &Map<String, Value>, field: &str) -> Result<Vec<(Regex, f64)>, String> {
    let patterns = match all.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(patterns)) => patterns,
        Some(value) => return Err(format!("`{field}` is {value}, expected an object")),
    };
    let mut found = Vec::new();
    for (name, value) in patterns {
        let number = value.as_f64().filter(|one| *one >= 0.0 && one.is_finite());
        let number =
            number.filter(|one| field != "rank_pattern" || (*one >= 1.0 && one.fract() == 0.0));
        let number = number.ok_or_else(|| {
            format!("`{field}` has {value} for {name:?}, which is no such number")
        })?;
        let regex = Regex::new(&format!(r"^(?:.*\.)?(?:{name})$"));
        let regex = regex
            .map_err(|error| format!("`{field}` has {name:?}, which is not understood: {error}"))?;
        found.push((regex, number));
    }
    Ok(found)
}
