use alloc::borrow::Cow;

/// A tensor by its name, meaning, shape and how parallel ranks share it.
///
/// `copies` counts equal tensors that the engine keeps apart, such as experts.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// A name for people, such as `q_proj`.
    pub name: Cow<'static, str>,
    pub role: Role,
    /// Output features; for a vector, its length.
    pub rows: u64,
    /// Input features; 1 for a vector.
    pub columns: u64,
    /// Equal tensors side by side.
    pub copies: u64,
    pub split: Split,
}

impl Tensor {
    /// A matrix of `rows` outputs by `columns` inputs.
    pub fn matrix(
        name: impl Into<Cow<'static, str>>,
        role: Role,
        rows: u64,
        columns: u64,
        split: Split,
    ) -> Self {
        Self {
            name: name.into(),
            role,
            rows,
            columns,
            copies: 1,
            split,
        }
    }

    /// A matrix that every rank has whole.
    pub fn whole(name: impl Into<Cow<'static, str>>, role: Role, rows: u64, columns: u64) -> Self {
        Self::matrix(name, role, rows, columns, Split::Replicated)
    }

    /// Split by its rows into at most so many parts.
    #[must_use]
    pub fn by_output(self, parts: u64) -> Self {
        let split = Split::Output(parts);
        Self { split, ..self }
    }

    /// Split by its columns into at most so many parts.
    #[must_use]
    pub fn by_input(self, parts: u64) -> Self {
        let split = Split::Input(parts);
        Self { split, ..self }
    }

    /// A vector of `length` elements.
    pub fn vector(name: impl Into<Cow<'static, str>>, role: Role, length: u64) -> Self {
        Self::matrix(name, role, length, 1, Split::Replicated)
    }

    #[must_use]
    pub fn times(mut self, copies: u64) -> Self {
        self.copies = copies;
        self
    }

    pub fn elements(&self) -> u64 {
        self.rows
            .saturating_mul(self.columns)
            .saturating_mul(self.copies)
    }

    /// Whether it multiplies activations, so that quantization and matmul rates concern it.
    pub fn is_matrix(&self) -> bool {
        self.rows > 1 && self.columns > 1
    }
}

/// How tensor parallelism shares a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Every rank holds all of it.
    Replicated,
    /// Output features are dealt out in this many indivisible pieces (heads, or features);
    /// with more ranks than pieces, pieces are replicated.
    Output(u64),
    /// Input features are dealt out likewise.
    Input(u64),
    /// Rows of the vocabulary, padded by the engine.
    Vocabulary,
    /// Routed experts: dealt out whole under expert parallelism, by features otherwise.
    Experts,
}

/// What a tensor does. The order is the order in which people read a breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Embedding,
    Head,
    Position,
    Query,
    Key,
    Value,
    AttentionOutput,
    /// Down-projection of latent attention: small, on every rank.
    LatentDown,
    /// Up-projection of a latent query.
    LatentQuery,
    /// Up-projection of a latent key and value; folded into the query when decoding.
    LatentKeyValue,
    /// Index scoring of sparse attention.
    Indexer,
    /// Gates, sinks and other small parts of attention.
    AttentionOther,
    /// Input projection of a recurrent mixer.
    StateInput,
    /// Output projection of a recurrent mixer.
    StateOutput,
    /// Convolutions, decays and other small parts of a recurrent mixer.
    StateOther,
    /// Gate and up projections of a dense feed-forward.
    MlpUp,
    /// Down projection of a dense feed-forward.
    MlpDown,
    /// Router over experts.
    Router,
    /// Gate and up projections of routed experts.
    ExpertUp,
    /// Down projections of routed experts.
    ExpertDown,
    /// Gate and up projections of shared experts.
    SharedUp,
    /// Down projections of shared experts.
    SharedDown,
    Norm,
    /// Query, key, value and output of cross attention.
    CrossAttention,
    /// Part of a vision or audio tower.
    Tower,
    /// From a tower to the language model.
    Projector,
}

impl Role {
    /// Whether it belongs to routed experts.
    pub const fn is_routed_expert(self) -> bool {
        matches!(self, Self::ExpertUp | Self::ExpertDown)
    }

    /// The kind of weights under which people and engines count it.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Embedding | Self::Position => "embedding",
            Self::Head => "head",
            Self::Query
            | Self::Key
            | Self::Value
            | Self::AttentionOutput
            | Self::LatentDown
            | Self::LatentQuery
            | Self::LatentKeyValue
            | Self::Indexer
            | Self::AttentionOther
            | Self::CrossAttention => "attention",
            Self::StateInput | Self::StateOutput | Self::StateOther => "state space",
            Self::MlpUp | Self::MlpDown => "MLP",
            Self::Router | Self::Norm => "norms, routers",
            Self::ExpertUp | Self::ExpertDown => "experts",
            Self::SharedUp | Self::SharedDown => "shared experts",
            Self::Tower | Self::Projector => "towers",
        }
    }
}
