//! Weights of one rank: by kind, from shapes or from what a header says is stored.

use crate::{
    setup::{Setup, Weights},
    shard::{Shard, shard},
};
use alloc::vec::Vec;
use gpuwise_domain::{
    model::{Layer, LayerRun, Role, Tensor},
    precision::{Roles, WeightFormat},
};

const MIB: f64 = 1048576.0;

/// Bytes of one kind of weights on one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightKind {
    /// The kind, as [`Role::kind`] names it; `prediction layers`, `draft model` and `LoRA adapters`
    /// beside those.
    pub kind: &'static str,
    pub bytes: f64,
}

/// Bytes of one role: on the fullest rank and in the whole model, by shapes.
#[derive(Debug, Clone, Copy)]
struct RoleBytes {
    role: Role,
    rank: f64,
    whole: f64,
}

/// Weights of the fullest rank by kind, in the order of [`Role`].
///
/// Layers are dealt out over pipeline stages, the larger share first; the first stage holds the
/// embedding, the last the head. The fullest of the two is taken. Where a header says what is
/// stored, its bytes are shared out as the shapes say.
pub fn weight_kinds(setup: &Setup<'_>) -> Vec<WeightKind> {
    let mut roles = by_shape(setup);
    if let Some(stored) = stored(setup) {
        for (role, bytes) in &stored.by_role {
            let bytes = *bytes as f64;
            match roles.iter_mut().find(|known| known.role == *role) {
                Some(known) if known.whole > 0.0 => {
                    known.rank = bytes * (known.rank / known.whole);
                    known.whole = bytes;
                }
                Some(known) => (known.rank, known.whole) = (bytes, bytes),
                // Stored, but not among the shapes: every rank may hold it.
                None => roles.push(RoleBytes {
                    role: *role,
                    rank: bytes,
                    whole: bytes,
                }),
            }
        }
    }
    roles.sort_by_key(|known| known.role);
    let mut kinds: Vec<WeightKind> = Vec::new();
    let mut add = |kind: &'static str, bytes: f64| match kinds.iter_mut().find(|k| k.kind == kind) {
        Some(known) => known.bytes += bytes,
        None => kinds.push(WeightKind { kind, bytes }),
    };
    // llama.cpp looks tokens up on the host; a tied head needs its own copy on the GPU.
    let on_host = setup.engine_model().is_local() && !setup.architecture.tied_head;
    for known in roles
        .iter()
        .filter(|known| !(on_host && known.role == Role::Embedding))
    {
        add(known.role.kind(), known.rank);
    }
    let drafts = prediction_runs(setup)
        .flat_map(|run| run.layer.tensors.iter().map(move |t| (run.count, t)))
        .map(|(count, tensor)| count as f64 * draft_bytes(tensor, setup))
        .sum::<f64>();
    if drafts > 0.0 {
        add("prediction layers", drafts);
    }
    if let Some(drafter) = setup.drafter() {
        add("draft model", weights_per_rank(&drafter));
    }
    let adapters = adapter_bytes(setup);
    if adapters > 0.0 {
        add("LoRA adapters", adapters);
    }
    kinds
}

/// What a header says is stored, where the weights are served as published.
fn stored<'a>(setup: &'a Setup<'_>) -> Option<&'a gpuwise_domain::model::StoredWeights> {
    let published = setup.weights == Weights::published(setup.architecture);
    setup.architecture.stored.as_ref().filter(|_| published)
}

/// Bytes of all weights, each once: of the header where there is one, else of the shapes.
pub fn published_bytes(setup: &Setup<'_>) -> f64 {
    if let Some(stored) = stored(setup) {
        return stored.total() as f64;
    }
    setup
        .architecture
        .tensors()
        .map(|(repeat, tensor)| repeat as f64 * setup.weights.bytes(tensor) as f64)
        .sum()
}

fn by_shape(setup: &Setup<'_>) -> Vec<RoleBytes> {
    let share = fullest_share(setup);
    let mut roles: Vec<RoleBytes> = Vec::new();
    let mut add = |tensor: &Tensor, on_rank: f64, in_all: f64| {
        let rank = bytes_on_rank(tensor, setup) * on_rank;
        let whole = setup.weights.bytes(tensor) as f64 * in_all;
        match roles.iter_mut().find(|known| known.role == tensor.role) {
            Some(known) => {
                known.rank += rank;
                known.whole += whole;
            }
            None => roles.push(RoleBytes {
                role: tensor.role,
                rank,
                whole,
            }),
        }
    };
    for run in &setup.architecture.layers {
        let count = run.count as f64;
        run.layer
            .tensors
            .iter()
            .for_each(|t| add(t, count * share, count));
    }
    if let Some(encoder) = &setup.architecture.encoder {
        for run in &encoder.layers {
            let count = run.count as f64;
            run.layer.tensors.iter().for_each(|t| add(t, count, count));
        }
        encoder.outside.iter().for_each(|t| add(t, 1.0, 1.0));
    }
    let edge = edge_tensors(setup);
    let held = |tensor: &Tensor| {
        edge.iter()
            .filter(|known| core::ptr::eq(**known, tensor))
            .count()
    };
    for tensor in &setup.architecture.outside {
        add(tensor, held(tensor) as f64, 1.0);
    }
    for tower in &setup.architecture.towers {
        tower.tensors.iter().for_each(|t| add(t, 1.0, 1.0));
    }
    roles
}

/// The share of layers on the fullest pipeline stage. llama.cpp deals the output out as one more
/// layer.
pub(super) fn fullest_share(setup: &Setup<'_>) -> f64 {
    let stages = u64::from(setup.layout.pipeline.max(1));
    let layers = setup.architecture.layer_count().max(1);
    let output = u64::from(setup.engine_model().is_local());
    let dealt = (layers + output).div_ceil(stages);
    (dealt.min(layers) as f64) / layers as f64
}

/// Prediction layers, where speculation loads them: a model that drafts takes their place.
pub(super) fn prediction_runs<'a>(setup: &'a Setup<'_>) -> impl Iterator<Item = &'a LayerRun> {
    let drafts = setup
        .draft
        .is_some_and(|draft| draft.tokens > 0 && draft.model.is_none());
    setup.architecture.prediction.iter().filter(move |_| drafts)
}

/// Bytes of a prediction layer's tensor on the rank: four-bit exports leave these layers as they are.
fn draft_bytes(tensor: &Tensor, setup: &Setup<'_>) -> f64 {
    let quantized = setup.weights.format(tensor);
    let native = setup.weights.native;
    let format = if quantized.bytes_per_element() < 0.75 {
        native
    } else {
        quantized
    };
    shard(tensor, &setup.layout).elements() * format.bytes_per_element()
}

/// Tensors outside of layers on the fullest stage: all of them without pipeline stages, else the
/// larger of the embedding's side and the head's.
fn edge_tensors<'a>(setup: &'a Setup<'_>) -> Vec<&'a Tensor> {
    let outside = setup.architecture.outside.iter();
    if setup.layout.pipeline <= 1 {
        return outside.collect();
    }
    if setup.engine_model().is_local() {
        return Vec::new();
    }
    let first = |t: &&Tensor| matches!(t.role, Role::Embedding | Role::Position);
    let sum = |tensors: &[&Tensor]| tensors.iter().map(|t| t.elements()).sum::<u64>();
    let (front, mut back): (Vec<&Tensor>, Vec<&Tensor>) = outside.partition(first);
    if setup.architecture.tied_head {
        back.extend(front.iter().filter(|t| t.role == Role::Embedding));
    }
    if sum(&front) >= sum(&back) {
        front
    } else {
        back
    }
}

fn bytes_on_rank(tensor: &Tensor, setup: &Setup<'_>) -> f64 {
    let part = padded(tensor, shard(tensor, &setup.layout), setup);
    let share = part.elements() / (tensor.elements() as f64).max(1.0);
    setup.weights.bytes(tensor) as f64 * share
}

/// What the engine's kernels pad MXFP4 experts to.
fn padded(tensor: &Tensor, part: Shard, setup: &Setup<'_>) -> Shard {
    let up = tensor.role == Role::ExpertUp;
    let expert = tensor.is_matrix() && (up || tensor.role == Role::ExpertDown);
    if !expert || setup.weights.format(tensor) != WeightFormat::MXFP4 {
        return part;
    }
    let (hidden, inner) = setup.engine_model().expert_multiples(setup);
    let to = |width: f64, multiple: f64| libm::ceil(width / multiple) * multiple;
    let (rows, columns) = if up { (inner, hidden) } else { (hidden, inner) };
    Shard {
        rows: to(part.rows, rows),
        columns: to(part.columns, columns),
        ..part
    }
}

pub fn weights_per_rank(setup: &Setup<'_>) -> f64 {
    weight_kinds(setup).iter().map(|kind| kind.bytes).sum()
}

/// Slots of LoRA adapters: for every projection of attention and dense feed-forwards a pair of
/// 16-bit matrices of the rank's width, split as the projection is.
fn adapter_bytes(setup: &Setup<'_>) -> f64 {
    let Some(adapters) = setup.adapters else {
        return 0.0;
    };
    let targets = Roles::attention().union(Roles::dense());
    let stages = f64::from(setup.layout.pipeline.max(1));
    let each: f64 = setup
        .architecture
        .layers
        .iter()
        .flat_map(|run| run.layer.tensors.iter().map(move |t| (run.count as f64, t)))
        .filter(|(_, tensor)| tensor.is_matrix() && targets.contains(tensor.role))
        .map(|(count, tensor)| {
            let part = shard(tensor, &setup.layout);
            count * (part.rows + part.columns) * part.copies
        })
        .sum();
    f64::from(adapters.count) * f64::from(adapters.rank) * 2.0 * each / stages
}

/// What PyTorch's allocator gives weights beyond what they ask for.
///
/// It asks the driver for multiples of 2 MiB for tensors of 10 MiB and more, and keeps a rest of at
/// most 1 MiB with the tensor. Engines hold query, key and value as one tensor, gate and up as one,
/// and the experts of a layer as two.
pub fn allocator_slack(setup: &Setup<'_>) -> f64 {
    if !setup.engine_model().loads_by_torch() {
        return 0.0;
    }
    let stages = f64::from(setup.layout.pipeline.max(1));
    let layers: f64 = setup
        .architecture
        .layers
        .iter()
        .map(|run| run.count as f64 * layer_slack(&run.layer, setup))
        .sum();
    let outside: f64 = setup
        .architecture
        .outside
        .iter()
        .map(|tensor| block_slack(bytes_on_rank(tensor, setup)))
        .sum();
    let drafter = setup
        .drafter()
        .map_or(0.0, |drafter| allocator_slack(&drafter));
    layers / stages + outside + drafter
}

fn layer_slack(layer: &Layer, setup: &Setup<'_>) -> f64 {
    let mut merged: Vec<(Role, f64)> = Vec::new();
    for tensor in &layer.tensors {
        let bytes = bytes_on_rank(tensor, setup);
        let key = match tensor.role {
            Role::Key | Role::Value => Role::Query,
            other => other,
        };
        let together = matches!(
            key,
            Role::Query
                | Role::MlpUp
                | Role::SharedUp
                | Role::ExpertUp
                | Role::ExpertDown
                | Role::LatentDown
        );
        match merged
            .iter_mut()
            .find(|(known, _)| together && *known == key)
        {
            Some((_, sum)) => *sum += bytes,
            None => merged.push((key, bytes)),
        }
    }
    merged.iter().map(|(_, bytes)| block_slack(*bytes)).sum()
}

fn block_slack(bytes: f64) -> f64 {
    if bytes < 10.0 * MIB {
        return 0.0;
    }
    let rest = libm::ceil(bytes / (2.0 * MIB)) * 2.0 * MIB - bytes;
    if rest <= MIB { rest } else { 0.0 }
}
