//! `gpuwise optimize --rotate`: the residual stream and the values of attention in another basis, in which numbers are
//! as large as one another, so that fewer bits lose less. What computes is the same, as norms by the root of the mean
//! square do not see a rotation once their gains are in the matrices behind them. QuaRot (Ashkboos et al. 2024), of it
//! what can be folded into weights, which SpinQuant (Liu et al. 2024) calls R1 and R2.

mod role;

use super::{
    checkpoint::Shard,
    turn::{Turn, Turned},
};
use crate::error::Problem;
use gpuwise_compress::Rotation;
use gpuwise_read::safetensors::Place;
use gpuwise_units::Bytes;
use role::{EMBEDDING, FIRST, HEAD, LAST_NORM, LAYERS, Role, role};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Decoders whose residual stream is read behind norms by the root of the mean square alone, without a factor on
/// embeddings or residuals.
const KNOWN: [&str; 7] = [
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
];
/// A tensor: its file, and which of that.
type At = (usize, usize);

struct Rotations {
    stream: Arc<Rotation>,
    head: Arc<Rotation>,
    gains: BTreeMap<String, Arc<Vec<f32>>>,
}

/// What was rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rotated {
    /// How many numbers are mixed with one another: of the residual stream, and of a head's values.
    stream: usize,
    values: usize,
    /// Bytes of a head that had no tensor of its own before.
    head: Option<u64>,
}

impl Rotated {
    pub(super) fn said(self) -> String {
        let Self { stream, values, .. } = self;
        let head = self.head.map(|bytes| {
            let bytes = Bytes::new(bytes);
            format!("; the head, which was the embeddings, has {bytes} of its own")
        });
        format!(
            "rotated before: the residual stream by {stream} numbers, values of attention by {values}{}",
            head.unwrap_or_default()
        )
    }
}

/// # Errors
/// When it is no model of which this is known to change nothing.
pub(super) fn apply(
    shards: &mut [Shard],
    config: &mut Value,
    model: &Path,
) -> anyhow::Result<Rotated> {
    let refused = |what: String| {
        Problem::new(format!("{}: {what}", model.display()))
            .hint("leave out --rotate: rotated, such a model may compute something else")
    };
    let architecture = config.pointer("/architectures/0").and_then(Value::as_str);
    if !architecture.is_some_and(|one| KNOWN.contains(&one)) {
        return Err(refused(format!(
            "{} is not known to compute the same when rotated; known are {}",
            architecture.unwrap_or("what config.json names no architecture of"),
            KNOWN.join(", ")
        ))
        .into());
    }
    let (hidden, head) = sizes(config).map_err(&refused)?;
    let all = names(shards);
    if let Some(other) = all.keys().find(|name| role(name).is_none()) {
        let what =
            format!("it has `{other}`, which is not known to read or write the residual stream");
        return Err(refused(what).into());
    }
    for name in [EMBEDDING, LAST_NORM] {
        if !all.contains_key(name) {
            return Err(refused(format!("it has no `{name}`")).into());
        }
    }
    for (name, (file, at)) in &all {
        fits(&shards[*file].tensors[*at], (hidden, head)).map_err(&refused)?;
        if let Some(Role::Reads(norm)) = role(name)
            && !all.contains_key(&of_layer(name, norm))
        {
            let what = format!(
                "it has no `{}`, behind which `{name}` reads",
                of_layer(name, norm)
            );
            return Err(refused(what).into());
        }
    }
    let rotation = |size: u64| -> anyhow::Result<Arc<Rotation>> {
        let made = Rotation::of(usize::try_from(size)?);
        Ok(Arc::new(
            made.ok_or_else(|| refused("it has no size".into()))?,
        ))
    };
    let mut rotations = Rotations {
        stream: rotation(hidden)?,
        head: rotation(head)?,
        gains: BTreeMap::new(),
    };
    for (name, at) in &all {
        if role(name) == Some(Role::Norm) {
            rotations
                .gains
                .insert(name.clone(), Arc::new(values(shards, *at)?));
        }
    }
    let own = own_head(shards, config, &all)?;
    for (name, at) in names(shards) {
        turn(shards, &name, at, &rotations)?;
    }
    Ok(Rotated {
        stream: rotations.stream.block(),
        values: rotations.head.block(),
        head: own,
    })
}

fn names(shards: &[Shard]) -> BTreeMap<String, At> {
    let files = shards.iter().enumerate();
    files
        .flat_map(|(file, shard)| {
            let tensors = shard.tensors.iter().enumerate();
            tensors.map(move |(at, tensor)| (tensor.name.clone(), (file, at)))
        })
        .collect()
}

fn sizes(config: &Value) -> Result<(u64, u64), String> {
    let whole = |field: &str| {
        let number = config.get(field).and_then(Value::as_u64);
        number.filter(|number| (1..1 << 32).contains(number))
    };
    let asked = |field: &str| {
        whole(field).ok_or_else(|| {
            format!("config.json: `{field}` is not said, or no whole number above 0")
        })
    };
    let hidden = asked("hidden_size")?;
    let head = match config.get("head_dim").filter(|said| !said.is_null()) {
        Some(_) => asked("head_dim")?,
        None => hidden / asked("num_attention_heads")?,
    };
    match head {
        0 => Err("config.json: more `num_attention_heads` than `hidden_size`".into()),
        head => Ok((hidden, head)),
    }
}

/// The norm of the layer that a tensor is of.
fn of_layer(name: &str, norm: &str) -> String {
    let number = name
        .strip_prefix(LAYERS)
        .and_then(|rest| rest.split_once('.'));
    match number {
        Some((number, _)) => format!("{LAYERS}{number}.{norm}"),
        None => norm.to_owned(),
    }
}

fn fits(tensor: &Place, (hidden, head): (u64, u64)) -> Result<(), String> {
    let Some(role) = role(&tensor.name) else {
        return Ok(());
    };
    let fits = match (role, tensor.shape.as_slice()) {
        (Role::Beside, _) => true,
        (Role::Embedding | Role::Reads(_), [_, columns]) => *columns == hidden,
        (Role::Norm | Role::Writes, [rows]) | (Role::Writes, [rows, _]) => *rows == hidden,
        (Role::Values, [rows, columns]) => *columns == hidden && rows.is_multiple_of(head),
        (Role::ValuesBias, [rows]) => rows.is_multiple_of(head),
        (Role::Output, [rows, columns]) => *rows == hidden && columns.is_multiple_of(head),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(format!(
        "`{}` is {:?}, which does not fit a residual stream of {hidden} and heads of {head}, as config.json has them",
        tensor.name, tensor.shape
    ))
}

fn values(shards: &[Shard], (file, at): At) -> anyhow::Result<Vec<f32>> {
    let pieces = shards[file].pieces(at)?;
    let each = pieces.iter().map(|piece| piece.numbers.values());
    Ok(each.collect::<anyhow::Result<Vec<_>>>()?.concat())
}

/// The last norm's gains go into the head, which therefore is no longer the embeddings. Bytes that it has more.
fn own_head(
    shards: &mut [Shard],
    config: &mut Value,
    all: &BTreeMap<String, At>,
) -> anyhow::Result<Option<u64>> {
    let tied = config.get("tie_word_embeddings") == Some(&json!(true));
    if !tied && all.contains_key(HEAD) {
        return Ok(None);
    }
    let Some((file, at)) = all.get(EMBEDDING).copied() else {
        return Ok(None);
    };
    let pieces = shards[file].pieces(at)?;
    let embedding = &shards[file].tensors[at];
    let place = Place {
        name: HEAD.to_owned(),
        dtype: embedding.dtype.clone(),
        shape: embedding.shape.clone(),
        begin: 0,
        end: 0,
    };
    let (file, at) = if let Some((file, at)) = all.get(HEAD).copied() {
        shards[file].tensors[at] = place;
        (file, at)
    } else {
        shards[file].tensors.push(place);
        (file, shards[file].tensors.len() - 1)
    };
    config["tie_word_embeddings"] = json!(false);
    shards[file].make(at, pieces)?;
    let tensor = &shards[file].tensors[at];
    let new = !all.contains_key(HEAD);
    Ok(new.then_some(tensor.end - tensor.begin))
}

fn turn(
    shards: &mut [Shard],
    name: &str,
    (file, at): At,
    rotations: &Rotations,
) -> anyhow::Result<()> {
    let Rotations {
        stream,
        head,
        gains,
    } = rotations;
    let gains = |norm: &str| gains.get(&of_layer(name, norm)).cloned();
    let columns = match shards[file].tensors[at].shape.as_slice() {
        [_, columns] => *columns,
        _ => 1,
    };
    let turned = |gains, reads: Option<&Arc<Rotation>>, writes: Option<&Arc<Rotation>>| {
        Turn::Turned(Turned {
            columns,
            gains,
            reads: reads.cloned(),
            writes: writes.cloned(),
        })
    };
    let turn = match role(name) {
        None | Some(Role::Beside) => return Ok(()),
        Some(Role::Norm) => Turn::Ones,
        Some(Role::Embedding) => turned(None, Some(stream), None),
        Some(Role::Reads(norm)) => turned(gains(norm), Some(stream), None),
        Some(Role::Values) => turned(gains(FIRST), Some(stream), Some(head)),
        Some(Role::ValuesBias) => turned(None, None, Some(head)),
        Some(Role::Output) => turned(None, Some(head), Some(stream)),
        Some(Role::Writes) => turned(None, None, Some(stream)),
    };
    let turn = Arc::new(turn);
    let mut pieces = shards[file].pieces(at)?;
    for piece in &mut pieces {
        piece.turn = Some(turn.clone());
    }
    shards[file].make(at, pieces)
}
