//! From settings to what they mean: engines count sequences, tokens and ranks differently.

use super::{
    LaunchError,
    flags::{Flags, Setting},
    words::Script,
};
use gpuwise_domain::{
    deployment::Adapters,
    engine::{EngineKind, Release},
    facts::{EngineFacts, FlagKind, Launch, PoolRole},
};
use gpuwise_units::Tokens;
use serde_json::Value;

pub(super) fn launch(
    flags: Flags,
    script: &Script,
    facts: &EngineFacts,
    release: Option<Release>,
) -> Result<Launch, LaunchError> {
    let mut reader = Reader {
        launch: Launch::new(facts.engine, release),
        lora: Adapters { count: 1, rank: 0 },
        lora_enabled: false,
        slots_shared: false,
        speculative: serde_json::Map::new(),
    };
    reader.launch.unknown = flags.unknown;
    reader.launch.model = flags.positional.into_iter().next();
    for setting in &flags.set {
        if setting.name == "config_file" {
            reader.file(&setting.value, script, facts, release)?;
        }
        reader.take(setting)?;
    }
    Ok(reader.finish())
}

struct Reader {
    launch: Launch,
    lora: Adapters,
    lora_enabled: bool,
    /// llama.cpp: every slot may use the whole context.
    slots_shared: bool,
    speculative: serde_json::Map<String, Value>,
}

impl Reader {
    /// A setting of the layout; whether it is one.
    fn take_layout(&mut self, setting: &Setting) -> Result<bool, LaunchError> {
        let launch = &mut self.launch;
        match setting.name.as_str() {
            "tensor_parallel_size" => launch.tensor = Some(setting.count()?),
            "pipeline_parallel_size" => launch.pipeline = Some(setting.count()?),
            "data_parallel_size" => launch.data = Some(setting.count()?),
            "attention_data_parallel_size" => {
                launch.data = Some(setting.count()?);
                launch.data_within_tensor = true;
            }
            "enable_dp_attention" => launch.data_within_tensor = setting.switch()?,
            "expert_parallel" => launch.expert_parallel = setting.switch()?,
            "expert_parallel_size" => {
                let ranks = setting.count()?;
                launch.expert = Some(ranks);
                launch.expert_parallel = ranks > 1;
            }
            "decode_context_parallel_size" => launch.decode_context = Some(setting.count()?),
            "tensor_split" => {
                launch.pipeline = Some(setting.value.split([',', '/']).count() as u32);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take(&mut self, setting: &Setting) -> Result<(), LaunchError> {
        if self.take_layout(setting)? {
            return Ok(());
        }
        let launch = &mut self.launch;
        match setting.name.as_str() {
            "model" => launch.model = Some(setting.value.clone()),
            "quantization" => launch.quantization = Some(setting.value.clone()),
            "weight_dtype" => launch.weight_dtype = Some(setting.value.clone()),
            "kv_cache_dtype" | "cache_type_k" => {
                launch.kv_cache_dtype = Some(setting.value.clone());
            }
            "max_model_len" => launch.max_model_len = setting.tokens()?,
            "gpu_memory_utilization"
            | "mem_fraction_static"
            | "kv_cache_free_gpu_memory_fraction" => {
                launch.memory_fraction = Some(setting.share()?);
            }
            "max_num_seqs" => launch.max_num_seqs = setting.tokens()?,
            "max_num_batched_tokens" | "n_ubatch" => {
                launch.max_num_batched_tokens = setting.tokens()?;
            }
            "block_size" => launch.block_size = setting.tokens()?,
            "enforce_eager" => launch.eager = setting.value == "null" || setting.switch()?,
            "enable_lora" => self.lora_enabled = setting.switch()?,
            "lora_modules" => {
                self.lora_enabled = true;
                self.lora.count = self
                    .lora
                    .count
                    .max(setting.value.split_whitespace().count() as u32);
            }
            "max_loras" => self.lora.count = setting.count()?,
            "max_lora_rank" => self.lora.rank = setting.count()?,
            "lora_config" => self.lora_config(setting)?,
            "num_speculative_tokens" | "speculative_num_steps" => {
                self.speculative
                    .insert(setting.name.clone(), u64::from(setting.count()?).into());
            }
            "speculative_method" => launch.draft_method = Some(setting.value.clone()),
            "draft_model" => launch.draft_model = Some(setting.value.clone()),
            "speculative_config" => {
                let object = setting.object()?;
                self.speculative.extend(object);
            }
            "disaggregation_mode" => launch.role = role(&setting.value),
            "kv_transfer_config" => {
                let object = setting.object()?;
                launch.role = object.get("kv_role").and_then(Value::as_str).and_then(role);
                launch
                    .other
                    .push((setting.name.clone(), setting.value.clone()));
            }
            "kv_unified" => self.slots_shared = setting.switch()?,
            name => match name.split_once('.') {
                Some(("speculative_config", key)) => {
                    let value = setting
                        .value
                        .parse::<u64>()
                        .map_or_else(|_| setting.value.clone().into(), Value::from);
                    self.speculative.insert(key.into(), value);
                }
                _ => launch
                    .other
                    .push((setting.name.clone(), setting.value.clone())),
            },
        }
        Ok(())
    }

    /// The keys of a settings file that the command itself writes.
    fn file(
        &mut self,
        path: &str,
        script: &Script,
        facts: &EngineFacts,
        release: Option<Release>,
    ) -> Result<(), LaunchError> {
        let Some((name, text)) = script.file(path) else {
            return Ok(());
        };
        let parsed: Value =
            serde_saphyr::from_str(text).map_err(|error| LaunchError::SettingsFile {
                file: name.clone(),
                problem: error.to_string().lines().next().unwrap_or_default().into(),
            })?;
        let mut found = Vec::new();
        keys(&parsed, "", facts, release, &mut found);
        found.iter().try_for_each(|setting| self.take(setting))
    }

    fn lora_config(&mut self, setting: &Setting) -> Result<(), LaunchError> {
        let object = setting.object()?;
        let number = |key: &str| {
            object
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|n| u32::try_from(n).ok())
        };
        self.lora_enabled = true;
        self.lora.count = number("max_loras").unwrap_or(self.lora.count);
        self.lora.rank = number("max_lora_rank").unwrap_or(self.lora.rank);
        Ok(())
    }

    /// What only all settings together say.
    fn finish(mut self) -> Launch {
        self.drafts();
        let launch = &mut self.launch;
        launch.adapters = self.lora_enabled.then_some(self.lora);
        match launch.engine {
            EngineKind::Sglang if launch.data_within_tensor => {
                // Both are stated for all attention groups together.
                let groups = u64::from(launch.data.unwrap_or(1).max(1));
                launch.max_num_seqs = launch.max_num_seqs.map(|all| all / groups);
                launch.max_num_batched_tokens =
                    launch.max_num_batched_tokens.map(|all| all / groups);
            }
            EngineKind::TensorRtLlm if launch.data_within_tensor => launch.data = launch.tensor,
            EngineKind::LlamaCpp if !self.slots_shared => {
                // The context is cut into as many parts as there are slots.
                let slots = launch.max_num_seqs.unwrap_or(1).max(1);
                launch.max_model_len = launch
                    .max_model_len
                    .map(|all| all / slots)
                    .filter(|length| *length > 0);
            }
            _ => {}
        }
        if launch.expert_parallel && launch.expert.is_none() && launch.engine == EngineKind::Sglang
        {
            launch.expert = launch.tensor;
        }
        if let EngineKind::LlamaCpp = launch.engine
            && let Some(at) = launch
                .other
                .iter()
                .position(|(name, mode)| name == "split_mode" && mode != "layer")
        {
            // Rows or tensors are cut over the GPUs instead of layers.
            launch.other.remove(at);
            launch.tensor = launch.pipeline.take();
        }
        self.launch
    }

    fn drafts(&mut self) {
        let get = |keys: &[&str]| keys.iter().find_map(|key| self.speculative.get(*key));
        let tokens = get(&[
            "speculative_num_steps",
            "num_speculative_tokens",
            "num_nextn_predict_layers",
            "max_draft_len",
        ]);
        self.launch.draft_tokens = tokens
            .and_then(Value::as_u64)
            .and_then(|n| u32::try_from(n).ok());
        let text = |keys: &[&str]| get(keys).and_then(Value::as_str).map(String::from);
        let method = text(&["method", "decoding_type"]);
        let model = text(&["model", "speculative_model", "speculative_model_dir"]);
        self.launch.draft_method = method.or(self.launch.draft_method.take());
        self.launch.draft_model = model.or(self.launch.draft_model.take());
    }
}

/// The settings of a file by the keys that are known; what is not known keeps its path as name.
fn keys(
    value: &Value,
    path: &str,
    facts: &EngineFacts,
    release: Option<Release>,
    found: &mut Vec<Setting>,
) {
    let known = facts
        .flag(&format!("yaml:{path}"), release)
        .filter(|_| !path.is_empty());
    let whole = match (value, known) {
        // Graphs are switched off by null; an object says how they are.
        (Value::Object(_), Some(flag)) => {
            flag.kind == FlagKind::Json && flag.setting != "enforce_eager"
        }
        (Value::Object(_), None) => false,
        _ => true,
    };
    if !whole && let Value::Object(object) = value {
        for (key, inner) in object {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            keys(inner, &path, facts, release, found);
        }
        return;
    }
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    found.push(Setting {
        name: known.map_or_else(|| path.to_string(), |flag| flag.setting.clone()),
        value: text,
        flag: path.into(),
    });
}

fn role(word: &str) -> Option<PoolRole> {
    match word.to_ascii_lowercase().as_str() {
        "prefill" | "kv_producer" | "context" => Some(PoolRole::Prefill),
        "decode" | "kv_consumer" | "generation" => Some(PoolRole::Decode),
        _ => None,
    }
}

impl Setting {
    fn wrong(&self, expected: &'static str) -> LaunchError {
        LaunchError::BadValue {
            flag: self.flag.clone(),
            value: self.value.clone(),
            expected,
        }
    }

    /// A number of ranks, adapters or draft tokens.
    fn count(&self) -> Result<u32, LaunchError> {
        let count = self
            .value
            .parse::<u32>()
            .ok()
            .filter(|count| (1..=100_000).contains(count));
        count.ok_or_else(|| self.wrong("a whole number from 1 to 100,000"))
    }

    /// A number of tokens or sequences. `auto` and what is not positive
    /// leave it to the engine.
    fn tokens(&self) -> Result<Option<u64>, LaunchError> {
        if self.value == "auto" || self.value.parse::<i64>().is_ok_and(|number| number <= 0) {
            return Ok(None);
        }
        match self.value.parse::<Tokens>() {
            Ok(Tokens(number @ 1..)) => Ok(Some(number)),
            _ => Err(self.wrong("a whole number, such as `8192`, `8k` or `8K`")),
        }
    }

    fn share(&self) -> Result<f64, LaunchError> {
        let share = self
            .value
            .parse::<f64>()
            .ok()
            .filter(|share| *share > 0.0 && *share <= 1.0);
        share.ok_or_else(|| self.wrong("a share above 0 and up to 1, such as `0.9`"))
    }

    fn switch(&self) -> Result<bool, LaunchError> {
        match self.value.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    fn object(&self) -> Result<serde_json::Map<String, Value>, LaunchError> {
        serde_json::from_str(&self.value).map_err(|_| self.wrong("a JSON object"))
    }
}
