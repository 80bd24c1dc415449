//! `gpuwise optimize --fuse qkv,gate-up`: matrices that are multiplied with the same input become one, in the files of
//! an architecture that computes the same and stores them so.

mod phi3;

use super::checkpoint::Shard;
use crate::{error::Problem, settings::Fusion};
use gpuwise_read::safetensors::Place;
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

/// What becomes one, in this order, and how that is called.
const TOGETHER: [(&[&str], &str); 2] = [
    (
        &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "self_attn.qkv_proj",
    ),
    (&["mlp.gate_proj", "mlp.up_proj"], "mlp.gate_up_proj"),
];
/// What else a layer has, in an architecture that has an equal.
const BESIDE: [&str; 5] = [
    "self_attn.o_proj.weight",
    "mlp.down_proj.weight",
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
    "self_attn.rotary_emb.inv_freq",
];
const LAYERS: &str = "model.layers.";
const OUTSIDE: [&str; 3] = [
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
];

/// # Errors
/// When no architecture computes the same with such files: says what this one has that no other has.
pub(super) fn apply(
    shards: &mut [Shard],
    config: &mut Value,
    (asked, model): (&[Fusion], &Path),
) -> anyhow::Result<()> {
    let refused = |what: String| {
        Problem::new(format!("{}: {what}", model.display())).hint(
            "leave out --fuse: vLLM and SGLang make one of such layers themselves as they load",
        )
    };
    if let Some(graph) = asked.iter().find(|one| one.of_graphs()) {
        return Err(refused(format!("--fuse {} is of ONNX graphs", graph.name()))
            .hint("expected a file called ….onnx; of safetensors there is --fuse qkv,gate-up, as no architecture of them stores what a batch norm would leave in a convolution")
            .into());
    }
    let both = [Fusion::Qkv, Fusion::GateUp];
    if !both.iter().all(|one| asked.contains(one)) {
        return Err(refused(
            "no architecture that engines know stores one of qkv and gate-up fused and the other not".into(),
        )
        .hint("expected --fuse qkv,gate-up")
        .into());
    }
    let fused = phi3::config(config).map_err(&refused)?;
    let names = shards.iter().flat_map(|shard| &shard.tensors);
    if let Some(other) = names.map(|tensor| &tensor.name).find(|name| !known(name)) {
        let what = format!("it has `{other}`, and {} has none", phi3::NAME);
        return Err(refused(what).into());
    }
    let layers = layers(shards).map_err(&refused)?;
    let sizes = phi3::Sizes::of(&fused).map_err(&refused)?;
    for layer in &layers {
        for (parts, name) in TOGETHER {
            let name = format!("{layer}{name}.weight");
            join(shards, layer, parts, (&name, &sizes)).map_err(|error| match error {
                Unfit::Said(what) => refused(what).into(),
                Unfit::Other(error) => error,
            })?;
        }
    }
    *config = fused;
    Ok(())
}

/// Why matrices do not become one.
enum Unfit {
    Said(String),
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Unfit {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// What a tensor is in its layer, and that layer.
fn within(name: &str) -> Option<(&str, &str)> {
    let (number, rest) = name.strip_prefix(LAYERS)?.split_once('.')?;
    number.parse::<u32>().ok()?;
    Some((&name[..=LAYERS.len() + number.len()], rest))
}

fn known(name: &str) -> bool {
    let fused = |rest: &str| {
        let layer = rest.strip_suffix(".weight");
        layer.is_some_and(|layer| TOGETHER.iter().any(|(parts, _)| parts.contains(&layer)))
    };
    OUTSIDE.contains(&name)
        || within(name).is_some_and(|(_, rest)| BESIDE.contains(&rest) || fused(rest))
}

/// Each layer once.
fn layers(shards: &[Shard]) -> Result<Vec<String>, String> {
    let tensors = shards.iter().flat_map(|shard| &shard.tensors);
    let mut layers = BTreeSet::new();
    for tensor in tensors {
        if let Some((layer, _)) = within(&tensor.name) {
            layers.insert(layer.to_owned());
        }
    }
    if layers.is_empty() {
        return Err(format!("it has no `{LAYERS}0.…`"));
    }
    Ok(layers.into_iter().collect())
}

fn find(shards: &[Shard], name: &str) -> Result<(usize, usize), Unfit> {
    let mut all = shards.iter().enumerate();
    let found = all.find_map(|(file, shard)| {
        let at = shard.tensors.iter().position(|one| one.name == name)?;
        Some((file, at))
    });
    found.ok_or_else(|| Unfit::Said(format!("it has no `{name}`")))
}

/// Makes one tensor of several, where the first of them lies.
fn join(
    shards: &mut [Shard],
    layer: &str,
    parts: &[&str],
    (name, sizes): (&str, &phi3::Sizes),
) -> Result<(), Unfit> {
    let (mut pieces, mut rows, mut dtype) = (Vec::new(), 0, None::<String>);
    for part in parts {
        let (file, at) = find(shards, &format!("{layer}{part}.weight"))?;
        let tensor = &shards[file].tensors[at];
        let expected = sizes.shape(part);
        if tensor.shape != expected {
            let what = format!(
                "`{}` is {:?}, by its config.json {expected:?}",
                tensor.name, tensor.shape
            );
            return Err(Unfit::Said(what));
        }
        if dtype.as_ref().is_some_and(|dtype| *dtype != tensor.dtype) {
            let what = format!(
                "`{}` is {}, what it would be one with is not",
                tensor.name, tensor.dtype
            );
            return Err(Unfit::Said(what));
        }
        dtype = Some(tensor.dtype.clone());
        rows += expected[0];
        pieces.extend(shards[file].pieces(at)?);
    }
    let (file, at) = find(shards, &format!("{layer}{}.weight", parts[0]))?;
    shards[file].tensors[at] = Place {
        name: name.to_owned(),
        dtype: dtype.unwrap_or_default(),
        shape: vec![rows, sizes.hidden],
        begin: 0,
        end: 0,
    };
    shards[file].make(at, pieces)?;
    for part in &parts[1..] {
        let (file, at) = find(shards, &format!("{layer}{part}.weight"))?;
        shards[file].tensors.remove(at);
    }
    Ok(())
}
