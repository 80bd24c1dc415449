//! Parts of a layer, from their dimensions.

mod attention;
mod feed_forward;

pub(crate) use attention::{AttentionShape, OutputGate, QueryKeyNorm, attention};
pub(crate) use feed_forward::{ExpertShape, dense, experts};

use gpuwise_domain::model::{FeedForward, Layer, LayerRun, Mixer, Role, Split, Tensor};

/// A matrix that every rank holds.
pub(crate) fn whole(name: &'static str, role: Role, rows: u64, columns: u64) -> Tensor {
    Tensor::matrix(name, role, rows, columns, Split::Replicated)
}

/// A matrix whose rows are dealt out in pieces: [rows, columns, pieces].
pub(crate) fn dealt(name: &'static str, role: Role, shape: [u64; 3]) -> Tensor {
    let [rows, columns, pieces] = shape;
    Tensor::matrix(name, role, rows, columns, Split::Output(pieces))
}

/// A matrix whose columns are dealt out in pieces: [rows, columns, pieces].
pub(crate) fn gathered(name: &'static str, role: Role, shape: [u64; 3]) -> Tensor {
    let [rows, columns, pieces] = shape;
    Tensor::matrix(name, role, rows, columns, Split::Input(pieces))
}

/// `count` norms of `parts` vectors each (1: scale; 2: scale and bias; 0: none).
pub(crate) fn norms(count: u64, parts: u64, hidden: u64) -> Option<Tensor> {
    (count * parts > 0).then(|| Tensor::vector("norms", Role::Norm, hidden).times(count * parts))
}

/// Puts a layer after the others, merging equal neighbours.
pub(crate) fn push(runs: &mut Vec<LayerRun>, layer: Layer) {
    match runs.last_mut() {
        Some(last) if last.layer == layer => last.count += 1,
        _ => runs.push(LayerRun { count: 1, layer }),
    }
}

/// A layer of a mixer and a feed-forward with their tensors and norms.
pub(crate) fn layer(
    mixer: (Mixer, Vec<Tensor>),
    feed_forward: (FeedForward, Vec<Tensor>),
    norms: Option<Tensor>,
) -> Layer {
    let mut tensors = mixer.1;
    tensors.extend(feed_forward.1);
    tensors.extend(norms);
    Layer {
        mixer: mixer.0,
        feed_forward: feed_forward.0,
        tensors,
        cross_attention: 0,
    }
}

/// Embedding, head unless tied, and final norm of `norm_parts` vectors.
pub(crate) fn outside(vocabulary: u64, hidden: u64, tied: bool, norm_parts: u64) -> Vec<Tensor> {
    outside_with(0, vocabulary, hidden, tied, norm_parts)
}

/// The same where the embedding has rows for tokens that the head never emits, such as images.
pub(crate) fn outside_with(
    extra: u64,
    vocabulary: u64,
    hidden: u64,
    tied: bool,
    norm_parts: u64,
) -> Vec<Tensor> {
    let table = |name, role, rows| Tensor::matrix(name, role, rows, hidden, Split::Vocabulary);
    let mut tensors = vec![table("embed_tokens", Role::Embedding, vocabulary + extra)];
    if !tied {
        tensors.push(table("lm_head", Role::Head, vocabulary));
    }
    tensors.extend(norms(1, norm_parts, hidden));
    tensors
}
