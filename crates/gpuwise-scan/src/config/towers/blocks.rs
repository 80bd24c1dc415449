//! Layers of towers, and lists of their tensors.

use gpuwise_domain::model::{Role, Split, Tensor};

/// Tensors of one role, as they are added.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    role: Role,
    pub(super) tensors: Vec<Tensor>,
}

impl Sheet {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            tensors: Vec::new(),
        }
    }

    /// A matrix that every rank holds.
    pub(super) fn matrix(&mut self, name: &'static str, rows: u64, columns: u64) -> &mut Self {
        self.matrices(name, rows, columns, 1)
    }

    pub(super) fn matrices(
        &mut self,
        name: &'static str,
        rows: u64,
        columns: u64,
        copies: u64,
    ) -> &mut Self {
        let matrix = Tensor::matrix(name, self.role, rows, columns, Split::Replicated);
        self.tensors.push(matrix.times(copies));
        self
    }

    /// A matrix with a bias.
    pub(super) fn linear(&mut self, name: &'static str, rows: u64, columns: u64) -> &mut Self {
        self.matrix(name, rows, columns).vectors("bias", rows, 1)
    }

    /// A matrix, with a bias or without.
    pub(super) fn linear_if(
        &mut self,
        bias: bool,
        name: &'static str,
        rows: u64,
        columns: u64,
    ) -> &mut Self {
        self.matrix(name, rows, columns)
            .vectors("bias", rows, u64::from(bias))
    }

    /// Equal vectors: norms, tokens, biases.
    pub(super) fn vectors(&mut self, name: &'static str, length: u64, copies: u64) -> &mut Self {
        if length > 0 && copies > 0 {
            self.tensors
                .push(Tensor::vector(name, self.role, length).times(copies));
        }
        self
    }

    /// The layers of a transformer.
    pub(super) fn blocks(&mut self, blocks: &Blocks) -> &mut Self {
        let &Blocks {
            hidden,
            width,
            layers,
            heads,
            inner,
            ..
        } = blocks;
        let ups = if blocks.gated { 2 } else { 1 };
        let matrix = |name, rows, columns, split, copies| {
            Tensor::matrix(name, Role::Tower, rows, columns, split).times(copies * layers)
        };
        self.tensors.extend([
            matrix("qkv", inner, hidden, Split::Output(heads), 3),
            matrix("out", hidden, inner, Split::Input(heads), 1),
            matrix("up", width, hidden, Split::Output(width), ups),
            matrix("down", hidden, width, Split::Input(width), 1),
        ]);
        let biases = [
            ("qkv.bias", 3 * inner, blocks.qkv_bias),
            ("out.bias", hidden, blocks.out_bias),
            ("mlp.bias", ups * width + hidden, blocks.mlp_bias),
        ];
        for (name, length, present) in biases {
            self.vectors(name, length, if present { layers } else { 0 });
        }
        self.vectors("norms", hidden, blocks.vectors * layers)
            .vectors("small", blocks.small, layers)
    }
}

/// The layers of a transformer in a tower, with the differences that count.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a tensor is there, independently of the others"
)]
pub(super) struct Blocks {
    pub(super) hidden: u64,
    pub(super) width: u64,
    pub(super) layers: u64,
    pub(super) heads: u64,
    /// Width of queries, of keys and of values.
    pub(super) inner: u64,
    pub(super) gated: bool,
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) mlp_bias: bool,
    /// Vectors of the stream's width in a layer: scales and biases of norms, and layer scales.
    pub(super) vectors: u64,
    /// Elements of all that is smaller: norms of queries and keys, gates.
    pub(super) small: u64,
}

impl Blocks {
    /// As most towers have them: two norms with scale and bias, biases everywhere, no gate.
    pub(super) fn usual(hidden: u64, width: u64, layers: u64, heads: u64) -> Self {
        Self {
            hidden,
            width,
            layers,
            heads,
            inner: hidden,
            gated: false,
            qkv_bias: true,
            out_bias: true,
            mlp_bias: true,
            vectors: 4,
            small: 0,
        }
    }

    /// As language models have them: two norms with a scale, no biases, a gate.
    pub(super) fn llama_like(hidden: u64, width: u64, layers: u64, heads: u64) -> Self {
        Self {
            gated: true,
            qkv_bias: false,
            out_bias: false,
            mlp_bias: false,
            vectors: 2,
            ..Self::usual(hidden, width, layers, heads)
        }
    }
}
