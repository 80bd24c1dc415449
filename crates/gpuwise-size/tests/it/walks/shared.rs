//! Networks of the shared data folder, whose parameters were counted with reference implementations.
//!
//! The folder is not part of the repository: `GPUWISE_DATA` names it, and without it nothing is
//! checked here, which is said.

use gpuwise_domain::network::InputSize;
use gpuwise_read::{config::parse_lenient, network::read_network_value};
use gpuwise_size::media::walk::walk;
use serde_json::Value;
use std::fs;

const KINDS: [&str; 7] = [
    "diffusion",
    "embedding",
    "encoder",
    "encoder-decoder",
    "speech",
    "vision",
    "vision-language",
];

#[test]
fn shared_networks_have_the_parameters_of_their_classes() {
    let Some(models) = shared_models() else {
        return;
    };
    let (mut wrong, mut checked, mut bare) = (Vec::new(), 0, Vec::new());
    for model in &models {
        let (id, kind) = (text(model, "id"), text(model, "kind"));
        if !KINDS.contains(&kind) {
            continue;
        }
        let Some(config) = config(&models, model) else {
            bare.push(id);
            continue;
        };
        checked += 1;
        let total = model["params"]["total_exact"].as_u64();
        let parameters = read_network_value(id, &config)
            .map_err(|error| error.to_string())
            .and_then(|network| walk(&network, &input(kind)).map_err(|error| error.to_string()))
            .map(|walk| walk.parameters());
        match parameters {
            Ok(parameters) if Some(parameters) == total => {}
            other => wrong.push(format!("{id}: {other:?}, reference {total:?}")),
        }
    }
    assert!(
        checked >= 48,
        "only {checked} networks; without configuration: {bare:?}"
    );
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn text<'a>(model: &'a Value, field: &str) -> &'a str {
    model[field].as_str().unwrap_or("")
}

/// The configuration with the class that was counted; where none is given, that of the entry whose
/// name it extends.
fn config(models: &[Value], model: &Value) -> Option<Value> {
    let (id, class) = (text(model, "id"), text(model, "model_type"));
    let empty = |model: &Value| {
        model["config"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    };
    let mut config = if empty(model) {
        let base = id.split(" (").next()?;
        let other = models
            .iter()
            .find(|other| text(other, "id") == base && !empty(other))?;
        other["config"].clone()
    } else {
        model["config"].clone()
    };
    // "transformers 5.23.0 BertModel on the meta device"
    let counted = text(&model["params"], "source")
        .split(' ')
        .nth(2)
        .unwrap_or(class);
    config["architectures"] = Value::Array(vec![counted.into()]);
    Some(config)
}

fn input(kind: &str) -> InputSize {
    let sized = InputSize {
        steps: Some(1),
        text_tokens: Some(64),
        written_tokens: Some(1),
        ..InputSize::default()
    };
    if kind == "diffusion" {
        InputSize {
            width: Some(256),
            height: Some(256),
            ..sized
        }
    } else {
        sized
    }
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
