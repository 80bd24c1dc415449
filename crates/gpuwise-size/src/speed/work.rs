//! The operators of one step: what each reads and computes, whatever the constants are.

use super::measured::CurveCache;
use crate::{
    knowledge::{Cell, Regime},
    setup::Setup,
    shard::{piece_share, shard},
};
use alloc::{string::String, vec::Vec};
use gpuwise_domain::{
    model::{FeedForward, LayerRun, Mixer, Role, Tensor, Window},
    precision::{Compute, WeightFormat},
};
use gpuwise_operators::Heads;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matmul {
    pub(super) name: &'static str,
    pub(super) bytes: f64,
    /// Operations per token.
    pub(super) flop: f64,
    pub(super) rows: f64,
    pub(super) format: WeightFormat,
    pub(super) compute: Compute,
    pub(super) weight_only: bool,
    /// Whether activations are scaled by blocks first.
    pub(super) blocks: bool,
}

/// The operators of one layer on one rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LayerWork {
    pub(super) count: f64,
    pub(super) matmuls: Vec<Matmul>,
    pub(super) mixer: MixerWork,
    pub(super) experts: Option<ExpertWork>,
    pub(super) kernels: f64,
    /// All-reduces after it over the tensor group.
    pub(super) reductions: f64,
}

impl LayerWork {
    /// Whether another run has the same operators, however many layers it has.
    pub(super) fn alike(&self, other: &Self) -> bool {
        let count = self.count;
        *self
            == Self {
                count,
                ..other.clone()
            }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MixerWork {
    None,
    /// Bytes of cache per context token, operations per query and context token when decoding and
    /// in prefill, and what is seen.
    Attention {
        bytes: f64,
        decode_flop: f64,
        prefill_flop: f64,
        window: Window,
        latent: bool,
        /// Entries that are read at most (0: all).
        top: f64,
        /// Tokens per entry that is read beyond the window (0: none are).
        ratio: f64,
        /// The kernel that is measured, where there is one of such heads.
        kernel: Option<AttentionKernel>,
    },
    /// Bytes of state read and written per sequence, operations per prompt token.
    Recurrent {
        bytes: f64,
        flop: f64,
    },
}

/// Entries that attention reads: of `near` tokens within its window, or of these and one entry for
/// every `ratio` tokens of the context; at most `top` where that is limited.
pub(super) fn entries(near: f64, context: f64, top: f64, ratio: f64) -> f64 {
    let most = if top > 0.0 { top } else { f64::INFINITY };
    if ratio > 0.0 {
        near + (context / ratio).min(most)
    } else {
        near.min(most)
    }
}

/// What a measured attention kernel is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AttentionKernel {
    /// Query heads over keys and values.
    Heads(Heads),
    /// So many heads over a latent of DeepSeek's sizes.
    Latent(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExpertWork {
    pub(super) count: f64,
    pub(super) chosen: f64,
    /// Bytes of one expert, whole.
    pub(super) bytes: f64,
    /// Operations per token and expert.
    pub(super) flop: f64,
    pub(super) format: WeightFormat,
    pub(super) compute: Compute,
    pub(super) weight_only: bool,
    pub(super) four_bit: bool,
    /// Width of what goes in and out.
    pub(super) input: f64,
    pub(super) width: f64,
    pub(super) gated: bool,
}

/// The operators of a setup: what follows from its shapes alone, whatever the constants are.
#[derive(Debug, Clone)]
pub struct StepShape {
    pub(super) layers: Vec<LayerWork>,
    pub(super) head: Option<Matmul>,
    /// Under what corrections of its steps are kept.
    pub(super) joint: String,
    /// Curves of measured operators, once they were asked for.
    pub(super) kept: CurveCache,
}

impl StepShape {
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            layers: setup
                .architecture
                .layers
                .iter()
                .map(|run| layer_work(run, setup))
                .collect(),
            head: head_work(setup),
            joint: Cell::of(setup, Regime::Served).joint(),
            kept: CurveCache::default(),
        }
    }
}

pub(super) fn head_work(setup: &Setup<'_>) -> Option<Matmul> {
    let architecture = setup.architecture;
    let role = if architecture.tied_head {
        Role::Embedding
    } else {
        Role::Head
    };
    let tensor = architecture
        .outside
        .iter()
        .find(|t| t.role == role && t.is_matrix())?;
    Some(matmul_work("output head", &[tensor], setup))
}

/// Tensors that one kernel multiplies by, such as query, key and value.
pub(super) fn matmul_work(name: &'static str, tensors: &[&Tensor], setup: &Setup<'_>) -> Matmul {
    let mut work = Matmul {
        name,
        bytes: 0.0,
        flop: 0.0,
        rows: 0.0,
        format: setup.weights.native,
        compute: Compute::Half,
        weight_only: false,
        blocks: false,
    };
    for tensor in tensors {
        let part = shard(tensor, &setup.layout);
        let share = part.elements() / (tensor.elements() as f64).max(1.0);
        work.bytes += setup.weights.bytes(tensor) as f64 * share;
        work.flop += 2.0 * part.elements();
        work.rows += part.rows * part.copies;
        work.format = setup.weights.format(tensor);
        work.compute = setup.weights.compute(tensor, &setup.device);
        work.weight_only = setup.weights.weight_only(tensor, &setup.device);
        work.blocks = matches!(work.format.name, "fp8-block" | "mxfp8");
    }
    work
}

/// Roles that are multiplied together, in the order of the layer.
pub(super) const MATMULS: &[(&str, &[Role])] = &[
    ("QKV projection", &[Role::Query, Role::Key, Role::Value]),
    ("latent projection", &[Role::LatentDown]),
    ("latent query projection", &[Role::LatentQuery]),
    ("latent KV projection", &[Role::LatentKeyValue]),
    ("indexer", &[Role::Indexer]),
    ("state input projection", &[Role::StateInput]),
    ("attention output projection", &[Role::AttentionOutput]),
    ("state output projection", &[Role::StateOutput]),
    ("cross attention projections", &[Role::CrossAttention]),
    ("MLP up projection", &[Role::MlpUp]),
    ("MLP down projection", &[Role::MlpDown]),
    ("router", &[Role::Router]),
    ("shared expert up projection", &[Role::SharedUp]),
    ("shared expert down projection", &[Role::SharedDown]),
];

pub(super) fn layer_work(run: &LayerRun, setup: &Setup<'_>) -> LayerWork {
    let layer = &run.layer;
    let mut matmuls = Vec::new();
    for (name, roles) in MATMULS {
        let tensors: Vec<&Tensor> = layer
            .tensors
            .iter()
            .filter(|t| roles.contains(&t.role) && t.is_matrix())
            .collect();
        if !tensors.is_empty() {
            matmuls.push(matmul_work(name, &tensors, setup));
        }
    }
    let has_mixer = !matches!(layer.mixer, Mixer::None);
    let has_feed_forward = !matches!(layer.feed_forward, FeedForward::None);
    let small_norms = layer
        .tensors
        .iter()
        .filter(|t| t.role == Role::AttentionOther)
        .count();
    let tensor_parallel = setup.layout.tensor > 1;
    LayerWork {
        count: run.count as f64,
        mixer: mixer_work(&layer.mixer, setup),
        experts: expert_work(layer, setup),
        // Norms, rotary, cache write, attention, activation.
        kernels: if has_mixer { 4.0 } else { 0.0 }
            + if has_feed_forward { 2.0 } else { 0.0 }
            + if small_norms > 0 { 1.0 } else { 0.0 },
        reductions: if tensor_parallel {
            f64::from(u8::from(has_mixer)) + f64::from(u8::from(has_feed_forward))
        } else {
            0.0
        },
        matmuls,
    }
}

pub(super) fn mixer_work(mixer: &Mixer, setup: &Setup<'_>) -> MixerWork {
    let element = setup.cache.bytes_per_element();
    let tensor = setup.layout.tensor;
    let context_ranks = f64::from(setup.layout.decode_context.max(1));
    match *mixer {
        Mixer::Attention {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            window,
            ..
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            let kv_here = kv_heads as f64 * piece_share(kv_heads, tensor);
            let dims = (key_dim + value_dim) as f64;
            MixerWork::Attention {
                bytes: kv_here * dims * element / context_ranks,
                decode_flop: 2.0 * heads_here * dims,
                prefill_flop: 2.0 * heads_here * dims,
                window,
                latent: false,
                top: 0.0,
                ratio: 0.0,
                kernel: heads_kernel(heads_here, kv_here, [key_dim, value_dim], window)
                    .filter(|_| context_ranks <= 1.0),
            }
        }
        Mixer::Latent {
            heads,
            kv_rank,
            rotary_dim,
            plain_dim,
            value_dim,
            index_dim,
            top_tokens,
            ..
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            MixerWork::Attention {
                bytes: (kv_rank + rotary_dim) as f64 * element / context_ranks + index_dim as f64,
                decode_flop: 2.0 * heads_here * (2 * kv_rank + rotary_dim) as f64,
                prefill_flop: 2.0 * heads_here * (plain_dim + rotary_dim + value_dim) as f64,
                window: Window::Full,
                latent: true,
                top: top_tokens as f64,
                ratio: 0.0,
                kernel: (top_tokens == 0
                    && context_ranks <= 1.0
                    && [kv_rank, rotary_dim, plain_dim, value_dim] == LATENT_SIZES)
                    .then_some(AttentionKernel::Latent(heads_here)),
            }
        }
        Mixer::Compressed {
            heads,
            dim,
            window,
            ratio,
            top_entries,
            ..
        } => {
            let heads_here = heads as f64 * piece_share(heads, tensor);
            MixerWork::Attention {
                bytes: dim as f64 * element,
                decode_flop: 4.0 * heads_here * dim as f64,
                prefill_flop: 4.0 * heads_here * dim as f64,
                window: Window::Sliding(window),
                latent: true,
                top: top_entries as f64,
                ratio: ratio as f64,
                kernel: None,
            }
        }
        Mixer::Recurrent(state) => {
            let share = piece_share(state.heads, tensor);
            let bytes = if state.state_bytes == 0 {
                2
            } else {
                state.state_bytes
            } as f64;
            let elements = state.heads as f64 * state.state_per_head as f64 * share;
            MixerWork::Recurrent {
                // Read and written.
                bytes: 2.0 * elements * bytes + 2.0 * state.convolution as f64 * share * 2.0,
                flop: 6.0 * elements,
            }
        }
        Mixer::None => MixerWork::None,
    }
}

/// The latent's rank, and widths of positions, of queries without them and of values of the latent
/// attention that is measured.
const LATENT_SIZES: [u64; 4] = [512, 64, 128, 128];

/// Heads as attention kernels are measured: keys as wide as values, all that is before seen, or a
/// sliding window of it.
fn heads_kernel(
    queries: f64,
    keys: f64,
    [key_dim, value_dim]: [u64; 2],
    window: Window,
) -> Option<AttentionKernel> {
    let window = match window {
        Window::Full => 0.0,
        Window::Sliding(tokens) => tokens.0 as f64,
        Window::Chunked(_) => return None,
    };
    (key_dim == value_dim).then_some(AttentionKernel::Heads(Heads {
        queries,
        keys,
        width: key_dim as f64,
        window,
    }))
}

pub(super) fn expert_work(
    layer: &gpuwise_domain::model::Layer,
    setup: &Setup<'_>,
) -> Option<ExpertWork> {
    let FeedForward::Experts {
        count,
        chosen,
        input,
        width,
        gated,
        ..
    } = layer.feed_forward
    else {
        return None;
    };
    let mut work = ExpertWork {
        count: count as f64,
        chosen: chosen as f64,
        bytes: 0.0,
        flop: 0.0,
        format: setup.weights.native,
        compute: Compute::Half,
        weight_only: false,
        four_bit: false,
        input: input as f64,
        width: width as f64,
        gated,
    };
    for tensor in layer.tensors.iter().filter(|t| t.role.is_routed_expert()) {
        work.bytes += setup.weights.bytes(tensor) as f64 / count as f64;
        if tensor.is_matrix() {
            work.flop += 2.0 * tensor.elements() as f64 / count as f64;
            work.format = setup.weights.format(tensor);
            work.four_bit = work.format.bytes_per_element() < 0.75;
            work.compute = setup.weights.compute(tensor, &setup.device);
            work.weight_only = setup.weights.weight_only(tensor, &setup.device);
        }
    }
    Some(work)
}
