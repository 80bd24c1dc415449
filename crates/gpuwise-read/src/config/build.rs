//! Parts of a layer, from their dimensions.

use gpuwise_domain::model::{FeedForward, Layer, LayerRun, Mixer, Role, Split, Tensor, Window};

/// How queries and keys are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryKeyNorm {
    None,
    /// One vector of a head's width for queries and one for keys.
    PerHead,
    /// Vectors as wide as all heads together.
    Full,
    /// One vector per head, as Cohere has it.
    EachHead,
}

/// A gate on the output of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputGate {
    None,
    /// The query projection is twice as wide and its second half gates.
    InQuery,
    /// One gate a head.
    PerHead,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionShape {
    pub(crate) hidden: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) key_dim: u64,
    pub(crate) value_dim: u64,
    pub(crate) window: Window,
    pub(crate) qkv_bias: bool,
    pub(crate) output_bias: bool,
    pub(crate) norm: QueryKeyNorm,
    pub(crate) gate: OutputGate,
    pub(crate) sinks: bool,
    /// Keys serve as values, so that no value projection is stored.
    pub(crate) keys_are_values: bool,
    /// Reads the cache of an earlier layer and has no key and value projections.
    pub(crate) shares_cache: bool,
}

pub(crate) fn attention(shape: &AttentionShape) -> (Mixer, Vec<Tensor>) {
    let &AttentionShape {
        hidden,
        heads,
        kv_heads,
        key_dim,
        value_dim,
        ..
    } = shape;
    let mixer = Mixer::Attention {
        heads,
        kv_heads,
        key_dim,
        value_dim,
        window: shape.window,
        shares_cache: shape.shares_cache,
    };
    let query_rows = heads * key_dim * if shape.gate == OutputGate::InQuery { 2 } else { 1 };
    let (key_rows, value_rows) = (kv_heads * key_dim, kv_heads * value_dim);
    let mut tensors = vec![Tensor::matrix("q_proj", Role::Query, query_rows, hidden, Split::Output(heads))];
    if !shape.shares_cache {
        tensors.push(Tensor::matrix("k_proj", Role::Key, key_rows, hidden, Split::Output(kv_heads)));
        if !shape.keys_are_values {
            tensors.push(Tensor::matrix("v_proj", Role::Value, value_rows, hidden, Split::Output(kv_heads)));
        }
    }
    tensors.push(Tensor::matrix(
        "o_proj",
        Role::AttentionOutput,
        hidden,
        heads * value_dim,
        Split::Input(heads),
    ));
    let mut other = |name: &'static str, length: u64| {
        tensors.push(Tensor::vector(name, Role::AttentionOther, length));
    };
    if shape.qkv_bias {
        other("q_proj.bias", query_rows);
        other("k_proj.bias", key_rows);
        other("v_proj.bias", value_rows);
    }
    if shape.output_bias {
        other("o_proj.bias", hidden);
    }
    match shape.norm {
        QueryKeyNorm::None => {}
        QueryKeyNorm::PerHead => {
            other("q_norm", key_dim);
            if !shape.shares_cache {
                other("k_norm", key_dim);
            }
        }
        QueryKeyNorm::Full | QueryKeyNorm::EachHead => {
            other("q_norm", heads * key_dim);
            other("k_norm", key_rows);
        }
    }
    if shape.sinks {
        other("sinks", heads);
    }
    match shape.gate {
        OutputGate::None | OutputGate::InQuery => {}
        OutputGate::PerHead => tensors.push(Tensor::matrix(
            "g_proj",
            Role::AttentionOther,
            heads,
            hidden,
            Split::Output(heads),
        )),
    }
    (mixer, tensors)
}

pub(crate) fn dense(hidden: u64, width: u64, gated: bool, bias: bool) -> (FeedForward, Vec<Tensor>) {
    let mut tensors = mlp(["up_proj", "down_proj"], [Role::MlpUp, Role::MlpDown], hidden, width, gated);
    if bias {
        let ups = if gated { 2 } else { 1 };
        tensors.push(Tensor::vector("mlp.bias", Role::MlpUp, ups * width));
        tensors.push(Tensor::vector("mlp.down.bias", Role::MlpDown, hidden));
    }
    (FeedForward::Dense { width, gated }, tensors)
}

/// The two (or three, with a gate) matrices of a feed-forward.
pub(crate) fn mlp(names: [&'static str; 2], roles: [Role; 2], hidden: u64, width: u64, gated: bool) -> Vec<Tensor> {
    let ups = if gated { 2 } else { 1 };
    vec![
        Tensor::matrix(names[0], roles[0], width, hidden, Split::Output(width)).times(ups),
        Tensor::matrix(names[1], roles[1], hidden, width, Split::Input(width)),
    ]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertShape {
    pub(crate) hidden: u64,
    pub(crate) count: u64,
    pub(crate) chosen: u64,
    pub(crate) width: u64,
    /// Width of an expert's input and output: `hidden`, or a latent of it.
    pub(crate) input: u64,
    pub(crate) gated: bool,
    pub(crate) shared_width: u64,
    /// A gate on the shared experts, one number a token.
    pub(crate) shared_gate: bool,
    pub(crate) router_bias: bool,
    pub(crate) expert_bias: bool,
}

pub(crate) fn experts(shape: &ExpertShape) -> (FeedForward, Vec<Tensor>) {
    let &ExpertShape {
        hidden,
        count,
        width,
        input,
        ..
    } = shape;
    let ups = if shape.gated { 2 } else { 1 };
    let mut tensors = vec![
        Tensor::matrix("router", Role::Router, count, hidden, Split::Replicated),
        Tensor::matrix("experts.up_proj", Role::ExpertUp, width, input, Split::Experts).times(count * ups),
        Tensor::matrix("experts.down_proj", Role::ExpertDown, input, width, Split::Experts).times(count),
    ];
    if shape.router_bias {
        tensors.push(Tensor::vector("router.bias", Role::Router, count));
    }
    if shape.expert_bias {
        tensors.push(Tensor::vector("experts.up.bias", Role::ExpertUp, ups * width).times(count));
        tensors.push(Tensor::vector("experts.down.bias", Role::ExpertDown, input).times(count));
    }
    if input != hidden {
        tensors.push(Tensor::matrix("latent_in", Role::Router, input, hidden, Split::Replicated));
        tensors.push(Tensor::matrix("latent_out", Role::Router, hidden, input, Split::Replicated));
    }
    if shape.shared_width > 0 {
        tensors.extend(mlp(
            ["shared.up_proj", "shared.down_proj"],
            [Role::SharedUp, Role::SharedDown],
            hidden,
            shape.shared_width,
            shape.gated,
        ));
        if shape.shared_gate {
            tensors.push(Tensor::vector("shared.gate", Role::Router, hidden));
        }
    }
    let feed_forward = FeedForward::Experts {
        count,
        chosen: shape.chosen,
        width,
        input,
        gated: shape.gated,
        shared_width: shape.shared_width,
    };
    (feed_forward, tensors)
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
pub(crate) fn layer(mixer: (Mixer, Vec<Tensor>), feed_forward: (FeedForward, Vec<Tensor>), norms: Option<Tensor>) -> Layer {
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
    let table = |name, role| Tensor::matrix(name, role, vocabulary, hidden, Split::Vocabulary);
    let mut tensors = vec![table("embed_tokens", Role::Embedding)];
    if !tied {
        tensors.push(table("lm_head", Role::Head));
    }
    tensors.extend(norms(1, norm_parts, hidden));
    tensors
}
