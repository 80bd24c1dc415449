//! `gpuwise optimize --prune mlp=75%,kv-heads=4`: channels of the MLP and groups of heads are taken out whole, the least
//! of each layer, so that what is left is a narrower model of the same architecture, which every engine loads.

mod asked;
mod scores;
mod width;

use super::{
    checkpoint::Shard,
    turn::{Picked, Turn},
};
use crate::error::Problem;
pub(super) use asked::Asked;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use width::Width;

/// Dense decoders whose width is said once for all layers, and the width of a head apart from that of the stream.
const KNOWN: [&str; 3] = ["LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"];
const LAYERS: &str = "model.layers.";

/// A tensor: its file, and which of that.
type At = (usize, usize);
/// Layer by layer its tensors, by what they are in it.
type Layers = BTreeMap<u32, Tensors>;

/// What was taken out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pruned {
    before: Width,
    after: Width,
    /// The share of all scores that went.
    mlp: f64,
    attention: f64,
}

impl Pruned {
    pub(super) fn said(self) -> String {
        let mut parts = Vec::new();
        if self.before.between != self.after.between {
            parts.push(format!(
                "{} of {} channels of each MLP stay; with the others went {:.1} % of what they are scored by",
                self.after.between,
                self.before.between,
                self.mlp * 100.0
            ));
        }
        if self.before.groups != self.after.groups {
            parts.push(format!(
                "{} of {} heads of keys and values stay, with {} of {} heads; went {:.1} %",
                self.after.groups,
                self.before.groups,
                self.after.heads,
                self.before.heads,
                self.attention * 100.0
            ));
        }
        format!(
            "pruned: {}; it answers badly until it is fine-tuned: --recipe distill writes how",
            parts.join("; ")
        )
    }
}

/// # Errors
/// When it is no model of which it is known how to make it narrower.
pub(super) fn apply(
    shards: &mut [Shard],
    config: &mut Value,
    (asked, model): (&Asked, &Path),
) -> anyhow::Result<Pruned> {
    let refused = |what: String| {
        Problem::new(format!("{}: {what}", model.display()))
            .hint("--prune makes Llama, Mistral and Qwen3 without experts narrower")
    };
    let architecture = config.pointer("/architectures/0").and_then(Value::as_str);
    if !architecture.is_some_and(|one| KNOWN.contains(&one)) {
        let architecture = architecture.unwrap_or("what config.json names no architecture of");
        return Err(refused(format!("{architecture} is none of {}", KNOWN.join(", "))).into());
    }
    let before = Width::of(config).map_err(&refused)?;
    let after = asked.of(before)?;
    // `LlamaConfig` of transformers 5.24 is no other.
    if architecture == Some("LlamaForCausalLM") && !after.hidden.is_multiple_of(after.heads) {
        return Err(refused(format!(
            "{} heads would be left, and transformers loads a Llama only where their number divides its hidden_size of {}",
            after.heads, after.hidden
        ))
        .hint(format!("a head of keys and values takes {} heads with it: name another number", after.heads / after.groups))
        .into());
    }
    let layers = layers(shards);
    if layers.is_empty() {
        return Err(refused(format!("it has no `{LAYERS}0.…`")).into());
    }
    fit(shards, &layers, before).map_err(&refused)?;
    let mut pruned = Pruned {
        before,
        after,
        mlp: 0.0,
        attention: 0.0,
    };
    let mut gone = [(0.0, 0.0); 2];
    for (number, tensors) in &layers {
        crate::progress::doing(&format!("layer {number} of {}: scores", layers.len()));
        let missing =
            |what: String| anyhow::Error::from(refused(format!("`{LAYERS}{number}.` {what}")));
        let layer = scores::Layer {
            tensors,
            width: before,
            missing: &missing,
        };
        if before.between != after.between {
            let kept = scores::best(&layer.mlp(shards)?, after.between, &mut gone[0]);
            narrow_mlp(shards, tensors, before, &kept)?;
        }
        if before.groups != after.groups {
            let kept = scores::best(&layer.attention(shards)?, after.groups, &mut gone[1]);
            narrow_attention(shards, tensors, before, &kept)?;
        }
    }
    crate::progress::doing("");
    let share = |(went, all): (f64, f64)| if all > 0.0 { went / all } else { 0.0 };
    (pruned.mlp, pruned.attention) = (share(gone[0]), share(gone[1]));
    config["intermediate_size"] = json!(after.between);
    config["num_attention_heads"] = json!(after.heads);
    config["num_key_value_heads"] = json!(after.groups);
    config["head_dim"] = json!(after.head);
    Ok(pruned)
}

/// Whether all matrices are as wide as the configuration says.
fn fit(shards: &[Shard], layers: &Layers, width: Width) -> Result<(), String> {
    for (number, tensors) in layers {
        for (name, (file, at)) in tensors {
            let Some((layer, kind)) = name.rsplit_once('.') else {
                continue;
            };
            let shape = &shards[*file].tensors[*at].shape;
            let fits = match (width.shape(layer), kind) {
                (Some(expected), "weight") => *shape == expected,
                (Some(expected), "bias") => *shape == expected[..1],
                _ => true,
            };
            if !fits {
                return Err(format!(
                    "`{LAYERS}{number}.{name}` is {shape:?}, not as config.json has it"
                ));
            }
        }
    }
    Ok(())
}

type Tensors = BTreeMap<String, At>;
/// Which rows, or which columns.
type Kept = Arc<Vec<u32>>;

fn narrow_mlp(
    shards: &mut [Shard],
    tensors: &Tensors,
    width: Width,
    kept: &Kept,
) -> anyhow::Result<()> {
    for layer in ["mlp.gate_proj", "mlp.up_proj"] {
        pick(shards, tensors, layer, (width, Some(kept), None))?;
    }
    pick(shards, tensors, "mlp.down_proj", (width, None, Some(kept)))
}

/// `kept` are groups: each is a head of keys and values, and the heads that read it.
fn narrow_attention(
    shards: &mut [Shard],
    tensors: &Tensors,
    width: Width,
    kept: &Kept,
) -> anyhow::Result<()> {
    let of = |wide: u64| -> Kept {
        let each = kept.iter().flat_map(|group| {
            let first = u64::from(*group) * wide;
            first..first + wide
        });
        Arc::new(each.map(|at| at as u32).collect())
    };
    let values = of(width.head);
    let all = of(width.head * width.heads / width.groups);
    for (layer, rows) in [
        ("self_attn.q_proj", &all),
        ("self_attn.k_proj", &values),
        ("self_attn.v_proj", &values),
    ] {
        pick(shards, tensors, layer, (width, Some(rows), None))?;
    }
    pick(
        shards,
        tensors,
        "self_attn.o_proj",
        (width, None, Some(&all)),
    )
}

fn layers(shards: &[Shard]) -> Layers {
    let mut layers = Layers::new();
    for (file, shard) in shards.iter().enumerate() {
        for (at, tensor) in shard.tensors.iter().enumerate() {
            let within = tensor.name.strip_prefix(LAYERS);
            if let Some((number, rest)) = within.and_then(|rest| rest.split_once('.'))
                && let Ok(number) = number.parse()
            {
                let layer: &mut BTreeMap<_, _> = layers.entry(number).or_default();
                layer.insert(rest.to_owned(), (file, at));
            }
        }
    }
    layers
}

/// Some rows, or some columns, of a layer's matrix, and of what is added behind it.
fn pick(
    shards: &mut [Shard],
    tensors: &Tensors,
    layer: &str,
    (width, rows, columns): (Width, Option<&Kept>, Option<&Kept>),
) -> anyhow::Result<()> {
    for kind in ["weight", "bias"] {
        let Some((file, at)) = tensors.get(&format!("{layer}.{kind}")).copied() else {
            continue;
        };
        let Some([all, wide]) = width.shape(layer) else {
            continue;
        };
        let picked = match kind {
            "bias" if rows.is_none() => continue,
            "bias" => Picked {
                rows: all,
                columns: 1,
                kept_rows: rows.cloned(),
                kept_columns: None,
            },
            _ => Picked {
                rows: all,
                columns: wide,
                kept_rows: rows.cloned(),
                kept_columns: columns.cloned(),
            },
        };
        let mut pieces = shards[file].pieces(at)?;
        let left = [picked.rows_left(), picked.columns_left()];
        shards[file].tensors[at].shape = match kind {
            "bias" => vec![left[0]],
            _ => left.to_vec(),
        };
        let turn = Arc::new(Turn::Picked(picked));
        for piece in &mut pieces {
            piece.turn = Some(turn.clone());
        }
        shards[file].make(at, pieces)?;
    }
    Ok(())
}
