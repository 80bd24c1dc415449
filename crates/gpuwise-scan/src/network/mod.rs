//! Configurations of networks that are run whole: of diffusers and transformers, one by one or as
//! the folder of a pipeline.

mod denoiser;
mod encoder;
mod error;
mod transformer;
mod vision;

pub use error::NetworkError;

use crate::config::{ConfigError, fields::Fields, parse_lenient};
use gpuwise_domain::network::{Component, Network, Shape};
use serde_json::Value;

/// Reads one part: the class is its `_class_name`, else the first of its `architectures`, else what
/// its `model_type` stands for.
pub(crate) type Reader = fn(Fields<'_>, &str) -> Result<Shape, ConfigError>;

/// Reads a configuration of one network from its text.
///
/// # Errors
/// When it is no JSON, of a class that is not known, or lacks what the walk needs.
pub fn read_network(name: &str, text: &str) -> Result<Network, NetworkError> {
    let value = parse_lenient(text).map_err(|source| NetworkError::Config {
        part: name.into(),
        source,
    })?;
    read_network_value(name, &value)
}

/// Reads a configuration of one network that is parsed already.
///
/// # Errors
/// As [`read_network`].
pub fn read_network_value(name: &str, value: &Value) -> Result<Network, NetworkError> {
    Ok(Network {
        name: name.into(),
        components: read_part("model", value)?,
        ..Network::default()
    })
}

/// Reads a pipeline from the text of its `model_index.json`; `part` gives the text of
/// `NAME/config.json`.
///
/// Parts that do no work on the GPU (schedulers, tokenizers) are left out.
///
/// # Errors
/// When the index or a part cannot be read, or it has no part that can be walked.
pub fn read_pipeline(
    name: &str,
    index: &str,
    part: &dyn Fn(&str) -> Option<String>,
) -> Result<Network, NetworkError> {
    let wrong = |source| NetworkError::Config {
        part: "model_index.json".into(),
        source,
    };
    let index = parse_lenient(index).map_err(wrong)?;
    let Value::Object(index) = index else {
        return Err(wrong(ConfigError::NotAnObject("something else")));
    };
    let mut network = Network {
        name: name.into(),
        ..Network::default()
    };
    for (called, value) in &index {
        let Some(class) = value.as_array().and_then(|pair| pair.get(1)?.as_str()) else {
            continue;
        };
        if works_on_the_host(class) {
            continue;
        }
        if class == "StableDiffusionSafetyChecker" {
            network
                .assumptions
                .push("the safety checker is not counted".into());
            continue;
        }
        let text = part(called).ok_or_else(|| NetworkError::MissingPart {
            part: called.clone(),
        })?;
        let value = parse_lenient(&text).map_err(|source| NetworkError::Config {
            part: called.clone(),
            source,
        })?;
        network.components.extend(read_part(called, &value)?);
    }
    if network.components.is_empty() {
        return Err(NetworkError::Empty);
    }
    Ok(network)
}

fn works_on_the_host(class: &str) -> bool {
    [
        "Scheduler",
        "Tokenizer",
        "TokenizerFast",
        "Processor",
        "ImageProcessor",
        "FeatureExtractor",
    ]
    .iter()
    .any(|end| class.ends_with(end))
}

/// Reads a part of a network; one configuration of CLIP holds two.
///
/// # Errors
/// When its class is not known, or a field is missing or wrong.
pub fn read_part(name: &str, value: &Value) -> Result<Vec<Component>, NetworkError> {
    let config = |source| NetworkError::Config {
        part: name.into(),
        source,
    };
    let root = Fields::root(value).map_err(config)?;
    let class = class(root).map_err(config)?;
    if let Some(towers) = encoder::towers(root, class).map_err(config)? {
        return Ok(towers);
    }
    let reader = reader(class).ok_or_else(|| NetworkError::UnknownClass {
        part: name.into(),
        class: class.into(),
    })?;
    let shape = reader(root, class).map_err(config)?;
    Ok(vec![Component {
        name: name.into(),
        shape,
    }])
}

fn class(root: Fields<'_>) -> Result<&str, ConfigError> {
    if let Some(class) = root.text("_class_name")? {
        return Ok(class);
    }
    if let Some(class) = root
        .texts("architectures")?
        .and_then(|all| all.first().copied())
    {
        return Ok(class);
    }
    root.text("model_type")?.ok_or(ConfigError::Missing {
        field: "_class_name",
        purpose: "class of the network, if it is not stated as `architectures` or `model_type`",
    })
}

/// The reader of a class, by the class that the configuration names or the type it is of.
fn reader(class: &str) -> Option<Reader> {
    [
        denoiser::reader,
        transformer::reader,
        vision::reader,
        encoder::reader,
    ]
    .iter()
    .find_map(|family| family(class))
}
