//! What stands beside the weights: how they are stored, for engines, and which file holds which tensor.

use super::convert::Done;
use crate::{error::Problem, settings::CacheName};
use gpuwise_compress::{Scheme, SparseAs, Strategy};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

const CONFIG: &str = "config.json";

/// What the model is.
pub(super) fn read(directory: &Path) -> anyhow::Result<Value> {
    let path = directory.join(CONFIG);
    let text = fs::read_to_string(&path).map_err(|error| {
        Problem::new(format!("cannot read {}", path.display()))
            .because(error)
            .hint("engines read there what the model is: the directory must be that of a model hub")
    })?;
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| Problem::new(format!("{}: not JSON", path.display())).because(error))?;
    if !config.is_object() {
        return Err(Problem::new(format!("{}: expected an object", path.display())).into());
    }
    Ok(config)
}

/// Refuses weights that were quantized before.
pub(super) fn not_quantized(config: &Value, directory: &Path) -> anyhow::Result<()> {
    let before = config
        .get("quantization_config")
        .or_else(|| config.pointer("/text_config/quantization_config"));
    let Some(before) = before else { return Ok(()) };
    let method = before.get("quant_method").and_then(Value::as_str);
    let what = format!(
        "{}: its weights are quantized already ({})",
        directory.join(CONFIG).display(),
        method.unwrap_or("quantization_config is there")
    );
    Err(Problem::new(what)
        .hint("take the model that it was made from; --to bf16 makes plain numbers of them, which does not bring back what was lost")
        .into())
}

fn strategy(strategy: Strategy) -> Value {
    match strategy {
        Strategy::Tensor => json!({"strategy": "tensor"}),
        Strategy::Channel => json!({"strategy": "channel"}),
        Strategy::Group(group) => json!({"strategy": "group", "group_size": group}),
        Strategy::Block(height, width) => {
            json!({"strategy": "block", "block_structure": [height, width]})
        }
    }
}

fn merged(mut one: Value, other: &Value) -> Value {
    if let (Some(one), Some(other)) = (one.as_object_mut(), other.as_object()) {
        one.extend(other.clone());
    }
    one
}

fn sparsity(kept: &[String], done: &[Done]) -> Value {
    let elements = |one: &Done| one.elements as f64;
    let all: f64 = done.iter().map(elements).sum();
    let pruned = done.iter().filter(|one| one.kept.is_none());
    let zeros = pruned.map(elements).sum::<f64>() / 2.0;
    json!({
        "quant_method": "compressed-tensors",
        "sparsity_config": {
            "format": "sparse-24-bitmask",
            "sparsity_structure": "2:4",
            "global_sparsity": zeros / all.max(1.0),
            "targets": ["Linear"],
            "ignore": kept,
        },
    })
}

/// What `quantization_config` says, as `compressed-tensors` has it; `kept`: linear layers that stay. `None` of matrices
/// with their zeros: they are as any, and engines refuse models that speak of zeros.
pub(super) fn quantization(
    scheme: Scheme,
    kept: &[String],
    kv: Option<CacheName>,
    done: &[Done],
) -> Option<Value> {
    let numbers = |bits: u32, kind: &str, symmetric: bool| json!({"num_bits": bits, "type": kind, "symmetric": symmetric, "dynamic": false});
    let token = |kind: &str| json!({"num_bits": 8, "type": kind, "symmetric": true, "dynamic": true, "strategy": "token"});
    let (format, weights, activations) = match scheme {
        Scheme::Fp8(how) => {
            let activations = match how {
                Strategy::Block(_, width) => merged(
                    token("float"),
                    &json!({"strategy": "group", "group_size": width}),
                ),
                _ => token("float"),
            };
            let weights = merged(numbers(8, "float", true), &strategy(how));
            ("float-quantized", weights, Some(activations))
        }
        Scheme::Int8(how) => {
            let weights = merged(numbers(8, "int", true), &strategy(how));
            ("int-quantized", weights, Some(token("int")))
        }
        Scheme::Packed {
            bits,
            strategy: how,
            symmetric,
        } => {
            let weights = merged(numbers(bits, "int", symmetric), &strategy(how));
            ("pack-quantized", weights, None)
        }
        Scheme::Nvfp4 => {
            let own = json!({"strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"});
            (
                "nvfp4-pack-quantized",
                merged(numbers(4, "float", true), &own),
                None,
            )
        }
        Scheme::TwoFour(SparseAs::Dense) => return None,
        Scheme::TwoFour(SparseAs::Bitmask) => return Some(sparsity(kept, done)),
        Scheme::Mxfp4 => {
            let own = json!({"strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"});
            (
                "mxfp4-pack-quantized",
                merged(numbers(4, "float", true), &own),
                None,
            )
        }
    };
    let cache =
        kv.map(|CacheName::Fp8| merged(numbers(8, "float", true), &strategy(Strategy::Tensor)));
    Some(json!({
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": weights,
            "input_activations": activations,
            "output_activations": null,
            "format": format,
        }},
        "ignore": kept,
        "kv_cache_scheme": cache,
    }))
}

/// The index of several files.
pub(super) fn index(files: &BTreeMap<String, String>, bytes: u64) -> Value {
    json!({"metadata": {"total_size": bytes}, "weight_map": files})
}
