//! Safetensors files: the headers of all shards, and the architecture that they and a configuration
//! make together.

use super::source::Parts;
use anyhow::{Context as _, anyhow};
use gpuwise_domain::model::Architecture;
use gpuwise_read::{
    config,
    safetensors::{self, StoredTensor},
    stored,
};
use std::collections::BTreeSet;

/// Bytes before the header, which give its length.
const LENGTH_BYTES: u64 = 8;

/// The tensors that one file's header describes.
pub(super) fn tensors(name: &str, file: &mut dyn Parts) -> anyhow::Result<Vec<StoredTensor>> {
    let length = file.length();
    if length < LENGTH_BYTES {
        return Err(anyhow!(
            "{name} has {length} bytes; a safetensors file has at least {LENGTH_BYTES}: it is cut short"
        ));
    }
    let first = file
        .read(0, LENGTH_BYTES)
        .with_context(|| format!("cannot read {name}"))?;
    let first: [u8; 8] = first
        .try_into()
        .map_err(|_| anyhow!("cannot read the first bytes of {name}"))?;
    let span = safetensors::header_span(first, length).with_context(|| name.to_owned())?;
    let json = file
        .read(LENGTH_BYTES, span)
        .with_context(|| format!("cannot read the header of {name}"))?;
    let header = safetensors::read_header(&json, length - LENGTH_BYTES - span)
        .with_context(|| name.to_owned())?;
    Ok(header.tensors)
}

/// The tensors of all shards together.
pub(super) fn joined(
    shards: Vec<(String, Vec<StoredTensor>)>,
    listed: Option<u64>,
) -> anyhow::Result<Vec<StoredTensor>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (shard, tensors) in shards {
        for tensor in tensors {
            if !seen.insert(tensor.name.clone()) {
                return Err(anyhow!(
                    "tensor `{}` stands in {shard} and in another file",
                    tensor.name
                ));
            }
            all.push(tensor);
        }
    }
    match listed {
        Some(listed) if listed != all.len() as u64 => Err(anyhow!(
            "the index lists {listed} tensors, the files it names hold {}: they do not belong together",
            all.len()
        )),
        _ => Ok(all),
    }
}

/// The architecture of a configuration with what headers say is stored; of headers alone where
/// there is no configuration.
pub(super) fn architecture(
    config: Option<(&str, &str)>,
    tensors: Option<&[StoredTensor]>,
) -> anyhow::Result<Architecture> {
    match (config, tensors) {
        (Some((name, text)), tensors) => {
            let architecture = config::read_config(text).with_context(|| name.to_owned())?;
            Ok(match tensors {
                Some(tensors) => stored::with_header(architecture, tensors),
                None => architecture,
            })
        }
        (None, Some(tensors)) => stored::architecture_from_tensors(tensors).context(
            "no config.json stands beside the tensors, and they alone do not show the model",
        ),
        (None, None) => Err(anyhow!("there is neither a configuration nor a header")),
    }
}
