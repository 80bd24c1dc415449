use crate::{setup::Setup, shard::shard};
use alloc::vec::Vec;
use gpuwise_domain::model::{Role, Tensor};

/// Bytes of one kind of weights on one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightKind {
    /// The kind, as [`Role::kind`] names it.
    pub kind: &'static str,
    /// Bytes.
    pub bytes: f64,
}

/// Weights of the fullest rank by kind, in the order of [`Role`].
///
/// Layers are dealt out over pipeline stages, the larger share first; the first stage holds the
/// embedding, the last the head. The fullest of the two is taken.
pub fn weight_kinds(setup: &Setup<'_>) -> Vec<WeightKind> {
    let stages = u64::from(setup.layout.pipeline.max(1));
    let layers = setup.architecture.layer_count().max(1);
    let share = layers.div_ceil(stages) as f64 / layers as f64;
    let mut by_role: Vec<(Role, f64)> = Vec::new();
    let mut add = |tensor: &Tensor, times: f64| {
        let bytes = bytes_on_rank(tensor, setup) * times;
        match by_role.iter_mut().find(|(role, _)| *role == tensor.role) {
            Some((_, sum)) => *sum += bytes,
            None => by_role.push((tensor.role, bytes)),
        }
    };
    for run in &setup.architecture.layers {
        for tensor in &run.layer.tensors {
            add(tensor, run.count as f64 * share);
        }
    }
    if let Some(encoder) = &setup.architecture.encoder {
        for run in &encoder.layers {
            for tensor in &run.layer.tensors {
                add(tensor, run.count as f64);
            }
        }
        encoder.outside.iter().for_each(|tensor| add(tensor, 1.0));
    }
    let edge = edge_tensors(setup);
    for tensor in edge {
        add(tensor, 1.0);
    }
    for tower in &setup.architecture.towers {
        tower.tensors.iter().for_each(|tensor| add(tensor, 1.0));
    }
    by_role.sort_by_key(|(role, _)| *role);
    let mut kinds: Vec<WeightKind> = Vec::new();
    for (role, bytes) in by_role {
        match kinds.iter_mut().find(|k| k.kind == role.kind()) {
            Some(kind) => kind.bytes += bytes,
            None => kinds.push(WeightKind {
                kind: role.kind(),
                bytes,
            }),
        }
    }
    kinds
}

/// Tensors outside of layers on the fullest stage: all of them without pipeline stages, else the
/// larger of the embedding's side and the head's.
fn edge_tensors<'a>(setup: &'a Setup<'_>) -> Vec<&'a Tensor> {
    let outside = setup.architecture.outside.iter();
    if setup.layout.pipeline <= 1 {
        return outside.collect();
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
    let part = shard(tensor, &setup.layout);
    let share = part.elements() / (tensor.elements() as f64).max(1.0);
    setup.weights.bytes(tensor) as f64 * share
}

/// Weights of the fullest rank.
pub fn weights_per_rank(setup: &Setup<'_>) -> f64 {
    weight_kinds(setup).iter().map(|kind| kind.bytes).sum()
}
