//! How a checkpoint is quantized, from `quantization_config`, or from a scheme's name.

use super::{ConfigError, fields::Fields};
use gpuwise_domain::{
    model::Role,
    precision::{Assignment, CacheFormat, Compute, Quantization, Roles, WeightFormat},
};

pub(super) fn read(
    root: Fields<'_>,
    text: Option<Fields<'_>>,
) -> Result<Option<Quantization>, ConfigError> {
    let nested = text
        .map(|t| t.object("quantization_config"))
        .transpose()?
        .flatten();
    let config = match root.object("quantization_config")? {
        Some(own) => Some(own),
        None => nested,
    };
    let Some(config) = config.or(root.object("compression_config")?) else {
        return short(root, text);
    };
    let method = config.text("quant_method")?.unwrap_or("");
    let algorithm = match config.text("quant_algo")? {
        Some(own) => own,
        None => config
            .object("quantization")?
            .map(|inner| inner.text("quant_algo"))
            .transpose()?
            .flatten()
            .unwrap_or(""),
    };
    let mut quantization = match method {
        "fp8" | "fbgemm_fp8" => fp8(config, experts_in_fp4(root, text)?)?,
        "mxfp4" => mxfp4(),
        "awq" | "gptq" | "gptq_marlin" | "awq_marlin" | "auto-round" => integers(method, config)?,
        "bitsandbytes" => bitsandbytes(config)?,
        "compressed-tensors" | "compressed_tensors" => compressed(config)?,
        "modelopt" | "modelopt_fp4" | "" if !algorithm.is_empty() => by_algorithm(algorithm, config)?,
        "modelopt" => by_algorithm("FP8", config)?,
        other => quantization_named(other).ok_or_else(|| ConfigError::Wrong {
            field: "quantization_config.quant_method".into(),
            found: format!("{other:?}"),
            expected: "a method known here: fp8, awq, gptq, bitsandbytes, mxfp4, compressed-tensors or modelopt",
        })?,
    };
    exclude(&mut quantization, config)?;
    quantization.cache = cache_asked_for(config);
    Ok(Some(quantization))
}

/// The cache's format that a checkpoint asks for: `kv_cache_scheme` or `kv_cache_quant_algo`.
fn cache_asked_for(config: Fields<'_>) -> Option<CacheFormat> {
    let field = |name: &str| {
        config
            .raw(name)
            .or_else(|| config.raw("quantization").map(|inner| &inner[name]))
    };
    if let Some(scheme) = field("kv_cache_scheme").filter(|scheme| scheme.is_object()) {
        let float =
            scheme["type"].as_str() == Some("float") && scheme["num_bits"].as_u64() == Some(8);
        return float.then_some(CacheFormat::FP8);
    }
    let named = field("kv_cache_quant_algo")?.as_str()?.to_ascii_lowercase();
    matches!(named.as_str(), "fp8" | "nvfp4")
        .then(|| CacheFormat::by_name(&named))
        .flatten()
}

/// Configurations in the catalogue may name the method only.
fn short(root: Fields<'_>, text: Option<Fields<'_>>) -> Result<Option<Quantization>, ConfigError> {
    let own = root.text("quant_method")?;
    let nested = text.map(|t| t.text("quant_method")).transpose()?.flatten();
    let fp4_experts = experts_in_fp4(root, text)?;
    Ok(match own.or(nested) {
        Some("fp8") => Some(fp8_linear(WeightFormat::FP8_BLOCK, fp4_experts)),
        Some("mxfp4") => Some(mxfp4()),
        Some("compressed-tensors") => Some(Quantization {
            cache: None,
            method: "compressed-tensors".into(),
            assignments: vec![Assignment {
                roles: Roles::experts(),
                format: WeightFormat::INT4_G32,
                compute: Compute::Half,
            }],
        }),
        _ => None,
    })
}

/// Whether routed experts are in MXFP4 beside matrices in FP8: `expert_dtype` stands beside the quantization's
/// configuration, not in it (DeepSeek-V4).
fn experts_in_fp4(root: Fields<'_>, text: Option<Fields<'_>>) -> Result<bool, ConfigError> {
    let nested = text.map(|t| t.text("expert_dtype")).transpose()?.flatten();
    Ok(root.text("expert_dtype")?.or(nested) == Some("fp4"))
}

fn fp8(config: Fields<'_>, fp4_experts: bool) -> Result<Quantization, ConfigError> {
    let blocks = config.counts("weight_block_size")?.is_some();
    let format = if blocks {
        WeightFormat::FP8_BLOCK
    } else {
        WeightFormat::FP8
    };
    Ok(fp8_linear(format, fp4_experts))
}

fn fp8_linear(format: WeightFormat, fp4_experts: bool) -> Quantization {
    let mut quantization = Quantization::uniform("fp8", format, Compute::Fp8);
    if fp4_experts {
        let experts = Assignment {
            roles: Roles::experts(),
            format: WeightFormat::MXFP4,
            compute: Compute::Fp8,
        };
        quantization.assignments.insert(0, experts);
    }
    quantization
}

fn mxfp4() -> Quantization {
    Quantization {
        cache: None,
        method: "mxfp4".into(),
        assignments: vec![Assignment {
            roles: Roles::experts(),
            format: WeightFormat::MXFP4,
            compute: Compute::Fp4,
        }],
    }
}

fn integers(method: &str, config: Fields<'_>) -> Result<Quantization, ConfigError> {
    let bits = config.count(&["bits", "w_bit"])?.unwrap_or(4);
    // -1 stands for one group a row.
    let group = match config.raw("group_size") {
        Some(value) if value.as_i64() == Some(-1) => 0,
        _ => config
            .count(&["group_size", "q_group_size"])?
            .unwrap_or(128),
    };
    let zero = config
        .flag("zero_point")?
        .unwrap_or(!config.flag("sym")?.unwrap_or(false));
    let format = match (bits, group) {
        (8, _) => WeightFormat::INT8_WEIGHT,
        (4, 32) => WeightFormat::INT4_G32,
        (4, _) if zero => WeightFormat::INT4_ZERO,
        (4, _) => WeightFormat::INT4,
        _ => {
            return Err(ConfigError::Wrong {
                field: "quantization_config.bits".into(),
                found: bits.to_string(),
                expected: "4 or 8",
            });
        }
    };
    Ok(Quantization::uniform(method, format, Compute::Half))
}

fn bitsandbytes(config: Fields<'_>) -> Result<Quantization, ConfigError> {
    let format = if config.is("load_in_8bit")? {
        WeightFormat::INT8
    } else {
        WeightFormat::NF4
    };
    Ok(Quantization::uniform("bitsandbytes", format, Compute::Half))
}

fn compressed(config: Fields<'_>) -> Result<Quantization, ConfigError> {
    let groups = config.object("config_groups")?;
    if let Some(sparse) = sparse(config, groups.is_some())? {
        return Ok(sparse);
    }
    let Some(groups) = groups else {
        return Ok(Quantization::uniform(
            "compressed-tensors",
            WeightFormat::FP8,
            Compute::Fp8,
        ));
    };
    let mut assignments = Vec::new();
    for name in groups.names() {
        let group = groups.raw(name).filter(|group| group.is_object());
        let Some(group) = group else { continue };
        let Some((format, compute)) = scheme(group) else {
            return Err(ConfigError::Wrong {
                field: format!("quantization_config.config_groups.{name}.weights.num_bits"),
                found: group["weights"]["num_bits"].to_string(),
                expected: "4 or 8",
            });
        };
        assignments.push(Assignment {
            roles: targets(&group["targets"]),
            format,
            compute,
        });
    }
    // Groups that name modules come before the one that means all of them.
    assignments.sort_by_key(|assignment| assignment.roles == Roles::linear());
    Ok(Quantization {
        cache: None,
        method: "compressed-tensors".into(),
        assignments,
    })
}

/// Weights of which zeros are left out; `None` where none are.
fn sparse(config: Fields<'_>, quantized: bool) -> Result<Option<Quantization>, ConfigError> {
    let Some(sparsity) = config.object("sparsity_config")? else {
        return Ok(None);
    };
    match sparsity.text("format")? {
        None | Some("dense") => Ok(None),
        Some("sparse-24-bitmask") if !quantized => Ok(Some(Quantization::uniform(
            "compressed-tensors",
            WeightFormat::SPARSE_2_4,
            Compute::Half,
        ))),
        Some(format) => Err(ConfigError::Wrong {
            field: "quantization_config.sparsity_config.format".into(),
            found: format!(
                "{format:?}{}",
                if quantized {
                    " of quantized weights"
                } else {
                    ""
                }
            ),
            expected: "dense, or sparse-24-bitmask of weights that are not quantized",
        }),
    }
}

/// How a group's weights are stored and multiplied; `None` for a number of bits that is not known.
fn scheme(group: &serde_json::Value) -> Option<(WeightFormat, Compute)> {
    let weights = &group["weights"];
    let float = weights["type"].as_str() == Some("float");
    let by_32 = weights["group_size"].as_u64() == Some(32);
    let activations = group["input_activations"].is_object();
    let four_bit = if activations {
        Compute::Fp4
    } else {
        Compute::Half
    };
    let blocks = weights["strategy"].as_str() == Some("block");
    let zero_points = weights["symmetric"].as_bool() == Some(false);
    Some(match (weights["num_bits"].as_u64().unwrap_or(8), float) {
        (8, true) if blocks => (WeightFormat::FP8_BLOCK, Compute::Fp8),
        (8, true) => (WeightFormat::FP8, Compute::Fp8),
        (8, false) if activations => (WeightFormat::INT8, Compute::Int8),
        (8, false) => (WeightFormat::INT8_WEIGHT, Compute::Half),
        (4, true) if by_32 => (WeightFormat::MXFP4, four_bit),
        (4, true) => (WeightFormat::NVFP4, four_bit),
        (4, false) if by_32 => (WeightFormat::INT4_G32, Compute::Half),
        (4, false) if zero_points => (WeightFormat::INT4_ZERO, Compute::Half),
        (4, false) => (WeightFormat::INT4, Compute::Half),
        _ => return None,
    })
}

/// Which roles a group's `targets` mean: `Linear`, or patterns that name modules.
fn targets(value: &serde_json::Value) -> Roles {
    let Some(list) = value.as_array() else {
        return Roles::linear();
    };
    let mut roles = Roles::NONE;
    for pattern in list.iter().filter_map(serde_json::Value::as_str) {
        if pattern == "Linear" {
            return Roles::linear();
        }
        roles = roles.union(roles_matched(pattern));
    }
    if roles.is_empty() {
        Roles::linear()
    } else {
        roles
    }
}

fn by_algorithm(algorithm: &str, config: Fields<'_>) -> Result<Quantization, ConfigError> {
    let (format, compute) = match algorithm.to_ascii_uppercase().as_str() {
        "NVFP4" => (WeightFormat::NVFP4, Compute::Fp4),
        "W4A16_NVFP4" | "NVFP4_AWQ" => (WeightFormat::NVFP4, Compute::Half),
        "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" => (WeightFormat::FP8, Compute::Fp8),
        "FP8_PB_WO" | "FP8_BLOCK_SCALES" => (WeightFormat::FP8_BLOCK, Compute::Fp8),
        "MXFP4" | "W4A8_MXFP4_FP8" => (WeightFormat::MXFP4, Compute::Fp8),
        "W4A16_AWQ" | "W4A8_AWQ" => (WeightFormat::INT4, Compute::Half),
        "INT8_SQ" | "W8A8_SQ_PER_CHANNEL" => (WeightFormat::INT8, Compute::Int8),
        "MIXED_PRECISION" => return mixed(config),
        _ => {
            return Err(ConfigError::Wrong {
                field: "quantization_config.quant_algo".into(),
                found: format!("{algorithm:?}"),
                expected: "FP8, NVFP4, MXFP4, W4A16_AWQ, INT8_SQ or MIXED_PRECISION",
            });
        }
    };
    Ok(Quantization::uniform("modelopt", format, compute))
}

/// Per-module algorithms: each role takes the first that names it.
fn mixed(config: Fields<'_>) -> Result<Quantization, ConfigError> {
    let mut assignments: Vec<Assignment> = Vec::new();
    let mut taken = Roles::NONE;
    if let Some(layers) = config.object("quantized_layers")? {
        for name in layers.names() {
            let roles = roles_matched(name).without(taken);
            let algorithm = layers
                .raw(name)
                .and_then(|l| l["quant_algo"].as_str())
                .unwrap_or("");
            if roles.is_empty() || algorithm.is_empty() {
                continue;
            }
            let one = by_algorithm(algorithm, config)?;
            if let Some(first) = one.assignments.first() {
                assignments.push(Assignment { roles, ..*first });
                taken = taken.union(roles);
            }
        }
    }
    if assignments.is_empty() {
        return Ok(Quantization::uniform(
            "modelopt",
            WeightFormat::NVFP4,
            Compute::Fp4,
        ));
    }
    Ok(Quantization {
        cache: None,
        method: "modelopt".into(),
        assignments,
    })
}

/// Takes the modules that stay unquantized out of every assignment.
fn exclude(quantization: &mut Quantization, config: Fields<'_>) -> Result<(), ConfigError> {
    let mut kept = Roles::NONE;
    let inner = config.object("quantization")?;
    let sparsity = config.object("sparsity_config")?;
    for list in [
        "modules_to_not_convert",
        "ignore",
        "ignored_layers",
        "exclude_modules",
    ] {
        let named = match config.texts(list)? {
            Some(own) => Some(own),
            None => within(inner, list)?.or(within(sparsity, list)?),
        };
        for pattern in named.unwrap_or_default() {
            // A regular expression as the name that it means.
            let pattern = &pattern.replace('\\', "");
            // Layers of towers are called as those of the language model.
            let beside = ["vision", "visual", "audio", "projector"];
            if beside.iter().any(|part| pattern.contains(part)) {
                continue;
            }
            // A pattern for one layer only changes little; patterns for all layers count.
            let one_layer = pattern.contains("layers.")
                && pattern
                    .split(['.', '/'])
                    .any(|part| part.parse::<u32>().is_ok());
            if !one_layer || pattern.contains("layers.0.") {
                kept = kept.union(roles_matched(pattern));
            }
        }
    }
    for assignment in &mut quantization.assignments {
        assignment.roles = assignment.roles.without(kept);
    }
    Ok(())
}

/// A list of an object that may not be there.
fn within<'a>(
    object: Option<Fields<'a>>,
    list: &'static str,
) -> Result<Option<Vec<&'a str>>, ConfigError> {
    match object {
        Some(object) => object.texts(list),
        None => Ok(None),
    }
}

/// The roles that a module name or pattern means.
fn roles_matched(pattern: &str) -> Roles {
    let has = |part: &str| pattern.contains(part);
    if has("shared_expert") {
        return Roles::of(&[Role::SharedUp, Role::SharedDown]);
    }
    if has("experts") {
        return Roles::experts();
    }
    let mut roles = Roles::NONE;
    for (part, of) in [
        ("q_proj", Roles::of(&[Role::Query])),
        ("k_proj", Roles::of(&[Role::Key])),
        ("v_proj", Roles::of(&[Role::Value])),
        (
            "qkv_proj",
            Roles::of(&[Role::Query, Role::Key, Role::Value]),
        ),
        ("o_proj", Roles::of(&[Role::AttentionOutput])),
        ("q_a_proj", Roles::of(&[Role::LatentDown])),
        ("kv_a_proj", Roles::of(&[Role::LatentDown])),
        ("q_b_proj", Roles::of(&[Role::LatentQuery])),
        ("kv_b_proj", Roles::of(&[Role::LatentKeyValue])),
        ("linear_attn", state_roles(pattern)),
        ("mamba", state_roles(pattern)),
        ("gate_up_proj", Roles::of(&[Role::MlpUp])),
        ("down_proj", Roles::of(&[Role::MlpDown])),
        ("up_proj", Roles::of(&[Role::MlpUp])),
    ] {
        if has(part) {
            roles = roles.union(of);
        }
    }
    if roles.is_empty() && (has("self_attn") || has("attention")) {
        roles = Roles::attention();
    } else if roles.is_empty() && has("mlp") && !has("gate") {
        roles = Roles::dense();
    }
    roles
}

/// The parts of a recurrent mixer that a pattern means: all of it unless it names parts. The narrow
/// projections of decays and gates count with the other small parts.
fn state_roles(pattern: &str) -> Roles {
    let has = |part: &str| pattern.contains(part);
    let small = ["in_proj_a", "in_proj_b", "conv1d", "dt_bias", "norm"]
        .into_iter()
        .any(has);
    let mut roles = Roles::NONE;
    if has("in_proj_qkv") || has("in_proj_z") || (has("in_proj") && !small) {
        roles = roles.with(Role::StateInput);
    }
    if has("out_proj") {
        roles = roles.with(Role::StateOutput);
    }
    if small {
        roles = roles.with(Role::StateOther);
    }
    if roles.is_empty() {
        return Roles::of(&[Role::StateInput, Role::StateOutput, Role::StateOther]);
    }
    roles
}

/// A quantization by the name of its scheme, as users and tables write it.
pub fn quantization_named(name: &str) -> Option<Quantization> {
    let uniform = |format, compute| Some(Quantization::uniform(name, format, compute));
    match name {
        "fp8" | "fp8-dynamic" | "fp8_dynamic" | "w8a8-fp8" | "float8" => {
            uniform(WeightFormat::FP8, Compute::Fp8)
        }
        "fp8-block" | "fp8_block" => uniform(WeightFormat::FP8_BLOCK, Compute::Fp8),
        "int8" | "w8a8" | "int8-w8a8" => uniform(WeightFormat::INT8, Compute::Int8),
        "int8-w8a16" | "int8_wo" | "w8a16" => uniform(WeightFormat::INT8_WEIGHT, Compute::Half),
        "awq" | "gptq" | "int4-awq" | "int4-gptq" | "int4-zp" => {
            uniform(WeightFormat::INT4_ZERO, Compute::Half)
        }
        "int4" | "w4a16" | "int4_wo" | "int4-w4a16" => uniform(WeightFormat::INT4, Compute::Half),
        "nvfp4" | "fp4" => uniform(WeightFormat::NVFP4, Compute::Fp4),
        "mxfp4" => uniform(WeightFormat::MXFP4, Compute::Fp4),
        "mxfp8" => uniform(WeightFormat::MXFP8, Compute::Fp8),
        "nf4" | "bnb" | "bitsandbytes" => uniform(WeightFormat::NF4, Compute::Half),
        _ => {
            let format = format_named(name)?;
            uniform(format, Compute::Half)
        }
    }
}

/// A weight format by the name of a GGUF type or scheme (`Q4_K_M`, `q8_0`, `F16` …).
pub fn format_named(name: &str) -> Option<WeightFormat> {
    let lower = name.to_ascii_lowercase();
    let base = lower
        .strip_suffix("_m")
        .or_else(|| lower.strip_suffix("_s"))
        .or_else(|| lower.strip_suffix("_l"))
        .filter(|base| base.starts_with('q'))
        .unwrap_or(&lower);
    match base {
        "f16" | "float16" | "half" => Some(WeightFormat::F16),
        "bfloat16" => Some(WeightFormat::BF16),
        "f32" | "float32" => Some(WeightFormat::F32),
        other => WeightFormat::by_name(other),
    }
}

/// Models with experts keep their dense matrices in the native format where only experts were named.
pub(super) fn narrowed(mut quantization: Quantization, has_experts: bool) -> Quantization {
    if !has_experts
        && quantization
            .assignments
            .iter()
            .all(|a| a.roles == Roles::experts())
    {
        for assignment in &mut quantization.assignments {
            assignment.roles = Roles::linear();
        }
    }
    quantization
}
