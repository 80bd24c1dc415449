//! Kimi-Linear, Kimi-K3 and GLM-5.3: delta attention with latent attention in between.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{ExpertShape, experts, layer, norms, push},
    common::{Common, full_layers, usual_feed_forward},
    compressed, latent, standard,
};
use gpuwise_domain::model::{FeedForward, Mixer, RecurrentState, Role, Split, Tensor};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "kimi_linear" => Some(read_kimi),
        "glm5_next" | "glm5_next_text" => Some(read_glm),
        _ => None,
    }
}

/// Delta attention with a gate for each channel.
#[derive(Debug, Clone, Copy)]
struct Delta {
    heads: u64,
    dim: u64,
    kernel: u64,
    /// Whether the output gate is one matrix instead of two thin ones.
    full_rank_gate: bool,
}

impl Delta {
    fn mixer(self, hidden: u64) -> (Mixer, Vec<Tensor>) {
        let Self {
            heads, dim, kernel, ..
        } = self;
        let inner = heads * dim;
        let by_heads = Split::Output(heads);
        let matrix = |name, rows, columns, split| {
            Tensor::matrix(name, Role::StateInput, rows, columns, split)
        };
        let mut tensors = vec![
            matrix("q_proj", inner, hidden, by_heads),
            matrix("k_proj", inner, hidden, by_heads),
            matrix("v_proj", inner, hidden, by_heads),
            matrix("b_proj", heads, hidden, by_heads),
            matrix("f_a_proj", dim, hidden, Split::Replicated),
            matrix("f_b_proj", inner, dim, by_heads),
            Tensor::vector("conv1d", Role::StateOther, 3 * inner * kernel),
            Tensor::vector("decay", Role::StateOther, heads + inner + dim),
            Tensor::matrix(
                "o_proj",
                Role::StateOutput,
                hidden,
                inner,
                Split::Input(heads),
            ),
        ];
        if self.full_rank_gate {
            tensors.push(matrix("g_proj", inner, hidden, by_heads));
        } else {
            tensors.push(matrix("g_a_proj", dim, hidden, Split::Replicated));
            tensors.push(matrix("g_b_proj", inner, dim, by_heads));
        }
        let state = RecurrentState {
            heads,
            state_per_head: dim * dim,
            convolution: 3 * (kernel - 1) * inner,
            // The reference keeps it in single precision.
            state_bytes: 4,
        };
        (Mixer::Recurrent(state), tensors)
    }
}

fn read_kimi(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let linear = text
        .object("linear_attn_config")?
        .ok_or(ConfigError::Missing {
            field: "linear_attn_config",
            purpose: "shape of the linear attention",
        })?;
    let full = linear.counts("full_attn_layers")?.unwrap_or_default();
    let delta = Delta {
        heads: linear.need(&["num_heads"], "linear attention")?,
        dim: linear.need(&["head_dim"], "linear attention")?,
        kernel: linear.count(&["short_conv_kernel_size"])?.unwrap_or(4),
        full_rank_gate: linear.is("use_full_rank_gate")?,
    };
    let gated = text.is("mla_use_output_gate")?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        // Layers are counted from 1 there.
        let mixer = if full.contains(&(index + 1)) {
            let mut latent = latent::latent_attention(context, hidden, index)?;
            if let (
                Mixer::Latent {
                    heads, value_dim, ..
                },
                true,
            ) = (latent.0, gated)
            {
                latent.1.push(Tensor::matrix(
                    "g_proj",
                    Role::Query,
                    heads * value_dim,
                    hidden,
                    Split::Output(heads),
                ));
            }
            latent
        } else {
            delta.mixer(hidden)
        };
        push(
            &mut layers,
            layer(
                mixer,
                kimi_feed_forward(context, hidden, index)?,
                norms(2, 1, hidden),
            ),
        );
    }
    let mut parts = common.parts(context, layers, 0);
    if text.count(&["routed_expert_hidden_size"])?.is_some() {
        parts
            .assumptions
            .push("the reference implementation of this model is not public: small tensors may be missing".into());
    }
    Ok(parts)
}

/// The usual one; experts may work on a latent of the residual stream.
fn kimi_feed_forward(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<(FeedForward, Vec<Tensor>), ConfigError> {
    let latent = context.text.count(&["routed_expert_hidden_size"])?;
    match (latent, standard::expert_shape(context, hidden, index)?) {
        (Some(input), Some(shape)) => Ok(experts(&ExpertShape { input, ..shape })),
        _ => usual_feed_forward(context, hidden, index),
    }
}

/// GLM-5.3: without rotary positions, with several residual streams and an index over pooled keys.
fn read_glm(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let full = full_layers(context, common.count, |index| index % 4 == 3)?;
    let delta = Delta {
        heads: text.count(&["linear_num_heads"])?.unwrap_or(64),
        dim: text.count(&["linear_head_dim"])?.unwrap_or(128),
        kernel: text.count(&["linear_conv_kernel_dim"])?.unwrap_or(4),
        full_rank_gate: false,
    };
    let pool = text.count(&["index_kpool"])?.unwrap_or(16);
    let streams = text.count(&["hc_mult"])?.unwrap_or(4);
    let mut layers = Vec::new();
    for (index, is_full) in (0_u64..).zip(full) {
        let mut mixer = if is_full {
            let mut latent = latent::latent_attention(context, hidden, index)?;
            if let Mixer::Latent {
                index_dim,
                index_pool,
                ..
            } = &mut latent.0
            {
                *index_pool = pool;
                let index_dim = *index_dim;
                let gate = Tensor::matrix(
                    "indexer.pool_gate",
                    Role::Indexer,
                    index_dim,
                    hidden,
                    Split::Replicated,
                );
                latent.1.push(gate);
                latent.1.push(Tensor::vector(
                    "indexer.pool_positions",
                    Role::AttentionOther,
                    pool * index_dim,
                ));
            }
            latent
        } else {
            delta.mixer(hidden)
        };
        mixer
            .1
            .extend(compressed::stream_connections(hidden, streams));
        let feed_forward = usual_feed_forward(context, hidden, index)?;
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, 0))
}
