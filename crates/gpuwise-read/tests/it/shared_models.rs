//! Models of the shared data folder, whose counts were taken with reference implementations.
//!
//! The folder is not part of the repository: `GPUWISE_DATA` names it, and without it nothing is
//! checked here, which is said.

use gpuwise_read::config::{parse_lenient, read_config_value};
use serde_json::Value;
use std::fs;

/// Its figure counts the attention of every layer; its `block_configs` remove that of 31.
const KNOWN_WRONG_CACHE: &str = "nvidia/Llama-3_3-Nemotron-Super-49B-v1";

#[test]
fn shared_models_are_read_exactly() {
    let Some(models) = shared_models() else {
        return;
    };
    let mut wrong = Vec::new();
    let mut checked = 0;
    for model in &models {
        let (id, config) = (model["id"].as_str().unwrap_or("?"), &model["config"]);
        let Some(total) = model["params"]["total_exact"]
            .as_u64()
            .filter(|_| model["kind"] == "llm")
        else {
            continue;
        };
        if !config.is_object() {
            continue;
        }
        checked += 1;
        let architecture = match read_config_value(config) {
            Ok(architecture) => architecture,
            Err(error) => {
                wrong.push(format!("{id}: {error}"));
                continue;
            }
        };
        let parameters = architecture.parameters().0;
        if parameters != total {
            wrong.push(format!("{id}: {parameters} parameters, reference {total}"));
        }
        let cache = 2 * architecture.cache_elements_per_token();
        let stated = model["kv_cache_bf16"]["kv_bytes_per_token"].as_u64();
        if stated.is_some_and(|stated| (stated == cache) == (id == KNOWN_WRONG_CACHE)) {
            wrong.push(format!(
                "{id}: {cache} bytes of cache per token, reference {stated:?}"
            ));
        }
    }
    assert!(checked > 90, "only {checked} models");
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn shared_models() -> Option<Vec<Value>> {
    let path = gpuwise_needs::data("catalogue/models.json")?;
    let text = fs::read_to_string(path).expect("a file that can be read");
    let Value::Object(mut document) = parse_lenient(&text).expect("JSON as Python writes it")
    else {
        panic!("models.json is an object")
    };
    match document.remove("models") {
        Some(Value::Array(models)) => Some(models),
        other => panic!("models.json has a list of models, not {other:?}"),
    }
}
