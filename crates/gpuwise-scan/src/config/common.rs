//! The fields that every decoder has, and layers with attention of the plain kind.

use super::{
    ConfigError, Context, Parts,
    build::{AttentionShape, OutputGate, QueryKeyNorm, attention, dense, experts, outside},
    standard,
};
use gpuwise_domain::model::{FeedForward, LayerRun, Mixer, Tensor};

/// The fields that every decoder has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) hidden: u64,
    pub(super) count: u64,
    pub(super) vocabulary: u64,
    pub(super) tied: bool,
    pub(super) context: Option<u64>,
}

impl Common {
    pub(super) fn read(context: &Context<'_>, tied: bool) -> Result<Self, ConfigError> {
        // The width first: it is what people look for when a field is missing.
        let common = Self::of_depth(context, 0, tied)?;
        let count =
            context
                .text
                .layers(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
        Ok(Self { count, ..common })
    }

    /// Where the depth is known from elsewhere.
    pub(super) fn of_depth(
        context: &Context<'_>,
        count: u64,
        tied: bool,
    ) -> Result<Self, ConfigError> {
        let text = context.text;
        Ok(Self {
            hidden: text.need(
                &["hidden_size", "d_model", "n_embd", "dim"],
                "width of the model",
            )?,
            count,
            vocabulary: text.vocabulary()?,
            tied: context.tied(tied)?,
            context: text.length(&[
                "max_position_embeddings",
                "max_sequence_length",
                "model_max_length",
                "max_seq_len",
                "seq_length",
            ])?,
        })
    }

    pub(super) fn parts(self, context: &Context<'_>, layers: Vec<LayerRun>, rotary: u64) -> Parts {
        Parts {
            model_type: context.model_type.into(),
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            tied: self.tied,
            rotary_elements: rotary,
            layers,
            outside: outside(self.vocabulary, self.hidden, self.tied, 1),
            prediction: Vec::new(),
            encoder: None,
            towers: Vec::new(),
            max_context: self.context,
            assumptions: Vec::new(),
        }
    }
}

/// Heads of attention, checked against each other.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "query heads and key-value heads are what they are called"
)]
pub(super) struct Heads {
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) dim: u64,
}

impl Heads {
    pub(super) fn read(context: &Context<'_>, hidden: u64) -> Result<Self, ConfigError> {
        let text = context.text;
        let heads = text.need(
            &["num_attention_heads", "n_head", "n_heads", "num_heads"],
            "attention",
        )?;
        let kv_heads = text
            .count(&[
                "num_key_value_heads",
                "num_kv_heads",
                "n_head_kv",
                "multi_query_group_num",
            ])?
            .unwrap_or(heads);
        let dim = match text.count(&["head_dim", "kv_channels", "attention_head_dim"])? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(ConfigError::Contradiction(format!(
                    "`hidden_size` {hidden} is no multiple of `num_attention_heads` {heads}, and `head_dim` is not given"
                )));
            }
        };
        Self {
            heads,
            kv_heads,
            dim,
        }
        .checked("`num_attention_heads`")
    }

    /// Query heads share key-value heads in groups of one size.
    pub(super) fn checked(self, what: &str) -> Result<Self, ConfigError> {
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ConfigError::Contradiction(format!(
                "`num_key_value_heads` {} does not divide {what} {}: expected groups of equal size",
                self.kv_heads, self.heads
            )));
        }
        Ok(self)
    }

    /// Attention of these heads over the whole context, with nothing beside it.
    pub(super) fn shape(self, hidden: u64) -> AttentionShape {
        AttentionShape::new(hidden, self.heads, self.kv_heads, self.dim)
    }
}

/// Attention over the whole context, as hybrids have it in some layers.
pub(super) fn plain_attention(
    context: &Context<'_>,
    hidden: u64,
    gate: OutputGate,
    norm: QueryKeyNorm,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let bias = context.text.is("attention_bias")?;
    Ok(attention(&AttentionShape {
        qkv_bias: bias,
        output_bias: bias,
        norm,
        gate,
        ..Heads::read(context, hidden)?.shape(hidden)
    }))
}

/// Experts where the layer has them, else a gated feed-forward.
pub(super) fn usual_feed_forward(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<(FeedForward, Vec<Tensor>), ConfigError> {
    if let Some(shape) = standard::expert_shape(context, hidden, index)? {
        return Ok(experts(&shape));
    }
    let width = context.text.need(
        &["intermediate_size", "feed_forward_hidden_dim"],
        "width of the feed-forward",
    )?;
    Ok(dense(hidden, width, true, false))
}

/// Whether a layer has attention over the whole context, by `layer_types` or else by a rule.
pub(super) fn full_layers(
    context: &Context<'_>,
    count: u64,
    rule: impl Fn(u64) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    let types = context.text.texts_of_layers("layer_types", count)?;
    Ok((0..count)
        .map(|index| match &types {
            Some(types) => types.get(index as usize).is_some_and(|kind| is_full(kind)),
            None => rule(index),
        })
        .collect())
}

fn is_full(kind: &str) -> bool {
    matches!(kind, "full_attention" | "attention" | "indexed_attention")
}
