//! Attention and its tensors, from its dimensions.

use gpuwise_domain::model::{Mixer, Role, Split, Tensor, Window};

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
    PerHead,
    /// A projection beside the query's, as wide as all heads together.
    Full,
}

/// Attention of a layer.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a tensor is there, independently of the others"
)]
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

impl AttentionShape {
    /// Heads of one width that see the whole context, with nothing beside them.
    pub(crate) fn new(hidden: u64, heads: u64, kv_heads: u64, dim: u64) -> Self {
        Self {
            hidden,
            heads,
            kv_heads,
            key_dim: dim,
            value_dim: dim,
            window: Window::Full,
            qkv_bias: false,
            output_bias: false,
            norm: QueryKeyNorm::None,
            gate: OutputGate::None,
            sinks: false,
            keys_are_values: false,
            shares_cache: false,
        }
    }
}

pub(crate) fn attention(shape: &AttentionShape) -> (Mixer, Vec<Tensor>) {
    let mixer = Mixer::Attention {
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        key_dim: shape.key_dim,
        value_dim: shape.value_dim,
        window: shape.window,
        shares_cache: shape.shares_cache,
        index_heads: 0,
        index_dim: 0,
        top_tokens: 0,
    };
    let mut tensors = projections(shape);
    tensors.extend(vectors(shape));
    (mixer, tensors)
}

impl AttentionShape {
    fn query_rows(&self) -> u64 {
        let halves = if self.gate == OutputGate::InQuery {
            2
        } else {
            1
        };
        halves * self.heads * self.key_dim
    }

    fn has_value_projection(&self) -> bool {
        !self.shares_cache && !self.keys_are_values
    }
}

fn projections(shape: &AttentionShape) -> Vec<Tensor> {
    let &AttentionShape {
        hidden,
        heads,
        kv_heads,
        key_dim,
        value_dim,
        ..
    } = shape;
    let output =
        |name, role, rows, pieces| Tensor::matrix(name, role, rows, hidden, Split::Output(pieces));
    let mut tensors = vec![output("q_proj", Role::Query, shape.query_rows(), heads)];
    if !shape.shares_cache {
        tensors.push(output("k_proj", Role::Key, kv_heads * key_dim, kv_heads));
    }
    if shape.has_value_projection() {
        tensors.push(output(
            "v_proj",
            Role::Value,
            kv_heads * value_dim,
            kv_heads,
        ));
    }
    tensors.push(Tensor::matrix(
        "o_proj",
        Role::AttentionOutput,
        hidden,
        heads * value_dim,
        Split::Input(heads),
    ));
    match shape.gate {
        OutputGate::None | OutputGate::InQuery => {}
        OutputGate::PerHead => tensors.push(output("g_proj", Role::AttentionOther, heads, heads)),
        // It multiplies the same input as the query, and is as large.
        OutputGate::Full => {
            tensors.push(output("gate_proj", Role::Query, heads * value_dim, heads));
        }
    }
    tensors
}

/// Biases, norms of queries and keys, and sinks.
fn vectors(shape: &AttentionShape) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    let mut add = |present: bool, name: &'static str, length: u64| {
        if present {
            tensors.push(Tensor::vector(name, Role::AttentionOther, length));
        }
    };
    let own_keys = !shape.shares_cache;
    let key_rows = shape.kv_heads * shape.key_dim;
    let value_rows = shape.kv_heads * shape.value_dim;
    add(shape.qkv_bias, "q_proj.bias", shape.query_rows());
    add(shape.qkv_bias && own_keys, "k_proj.bias", key_rows);
    add(
        shape.qkv_bias && shape.has_value_projection(),
        "v_proj.bias",
        value_rows,
    );
    add(shape.output_bias, "o_proj.bias", shape.hidden);
    let (query, key) = match shape.norm {
        QueryKeyNorm::None => (0, 0),
        QueryKeyNorm::PerHead => (shape.key_dim, shape.key_dim),
        QueryKeyNorm::Full | QueryKeyNorm::EachHead => (shape.heads * shape.key_dim, key_rows),
    };
    add(query > 0, "q_norm", query);
    add(key > 0 && own_keys, "k_norm", key);
    add(shape.sinks, "sinks", shape.heads);
    tensors
}
