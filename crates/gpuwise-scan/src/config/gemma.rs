//! Gemma-3n and Gemma-4: layers differ in shape, late ones read the cache of earlier ones, and small
//! models feed each layer an embedding of its own.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{
        AttentionShape, ExpertShape, QueryKeyNorm, attention, dense, experts, layer, norms, push,
    },
    common::{Common, Heads},
};
use gpuwise_domain::model::{Layer, Role, Split, Tensor, Window};
use gpuwise_units::Tokens;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "gemma3n" | "gemma3n_text" => Some(read_gemma3n),
        "gemma4" | "gemma4_text" => Some(read_gemma4),
        _ => None,
    }
}

/// Which layers slide, and which share the cache of an earlier one.
fn kinds(context: &Context<'_>, count: u64, period: u64) -> Result<Vec<(bool, bool)>, ConfigError> {
    let text = context.text;
    let types = text.texts_of_layers("layer_types", count)?;
    let sharing = text.count_or_zero(&["num_kv_shared_layers"])?.unwrap_or(0);
    Ok((0..count)
        .map(|index| {
            let sliding = match &types {
                Some(types) => types.get(index as usize) != Some(&"full_attention"),
                None => !(index + 1).is_multiple_of(period),
            };
            (sliding, count < index + 1 + sharing)
        })
        .collect())
}

/// The gate and projection with which a layer takes in its own embedding, and their norm.
fn own_embedding(hidden: u64, width: u64) -> Vec<Tensor> {
    let split = Split::Replicated;
    let mut tensors = vec![
        Tensor::matrix("per_layer_gate", Role::MlpUp, width, hidden, split),
        Tensor::matrix("per_layer_projection", Role::MlpDown, hidden, width, split),
    ];
    tensors.extend(norms(1, 1, hidden));
    tensors
}

/// The table of those embeddings, looked up as positions are, and what mixes the stream into them.
fn own_embeddings(
    context: &Context<'_>,
    common: Common,
    width: u64,
) -> Result<Vec<Tensor>, ConfigError> {
    let rows = context
        .text
        .length(&["vocab_size_per_layer_input"])?
        .unwrap_or(common.vocabulary);
    let all = common.count * width;
    let split = Split::Replicated;
    let mut tensors = vec![
        Tensor::matrix("embed_tokens_per_layer", Role::Position, rows, all, split),
        Tensor::matrix(
            "per_layer_model_projection",
            Role::MlpUp,
            all,
            common.hidden,
            split,
        ),
    ];
    tensors.extend(norms(1, 1, width));
    Ok(tensors)
}

fn read_gemma3n(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let heads = Heads::read(context, hidden)?;
    let window = Tokens(text.length(&["sliding_window"])?.unwrap_or(512));
    let streams = text.count(&["altup_num_inputs"])?.unwrap_or(4);
    let rank = text.count(&["laurel_rank"])?.unwrap_or(64);
    let own = text.count(&["hidden_size_per_layer_input"])?.unwrap_or(256);
    let mut layers = Vec::new();
    for (index, (sliding, shares_cache)) in (0_u64..).zip(kinds(context, common.count, 5)?) {
        let mixer = attention(&AttentionShape {
            window: if sliding {
                Window::Sliding(window)
            } else {
                Window::Full
            },
            norm: QueryKeyNorm::PerHead,
            shares_cache,
            ..heads.shape(hidden)
        });
        let width = text
            .count_at(&["intermediate_size"], index)?
            .filter(|width| *width > 0);
        let width = width.ok_or(ConfigError::Missing {
            field: "intermediate_size",
            purpose: "width of the feed-forward",
        })?;
        let mut one = layer(
            mixer,
            dense(hidden, width, true, false),
            norms(4, 1, hidden),
        );
        one.tensors.extend(alternating_updates(hidden, streams));
        one.tensors.extend(low_rank_residual(hidden, rank));
        one.tensors.extend(own_embedding(hidden, own));
        push(&mut layers, one);
    }
    let mut parts = common.parts(context, layers, heads.dim);
    parts.outside.extend(own_embeddings(context, common, own)?);
    // The other streams start as projections of the first, and return into it.
    let stream = Tensor::matrix(
        "altup_projections",
        Role::MlpUp,
        hidden,
        hidden,
        Split::Replicated,
    );
    parts.outside.push(stream.times(2 * (streams - 1)));
    Ok(parts)
}

/// AltUp: the layer works on one of several streams and predicts the others.
fn alternating_updates(hidden: u64, streams: u64) -> Vec<Tensor> {
    vec![
        Tensor::vector("altup.correct_output_scale", Role::Norm, hidden),
        Tensor::matrix(
            "altup.prediction",
            Role::Router,
            streams * streams,
            streams,
            Split::Replicated,
        ),
        Tensor::matrix(
            "altup.correction",
            Role::Router,
            streams,
            streams,
            Split::Replicated,
        ),
        Tensor::matrix(
            "altup.modality_router",
            Role::Router,
            streams,
            hidden,
            Split::Replicated,
        ),
        Tensor::vector("altup.router_norm", Role::Norm, hidden),
    ]
}

/// LAuReL: a low-rank path beside attention.
fn low_rank_residual(hidden: u64, rank: u64) -> Vec<Tensor> {
    vec![
        Tensor::matrix("laurel.left", Role::MlpUp, rank, hidden, Split::Replicated),
        Tensor::matrix(
            "laurel.right",
            Role::MlpDown,
            hidden,
            rank,
            Split::Replicated,
        ),
        Tensor::vector("laurel.norm", Role::Norm, hidden),
    ]
}

/// Gemma-4: global layers have their own head width and count; experts stand beside a dense part.
fn read_gemma4(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let own = text
        .count_or_zero(&["hidden_size_per_layer_input"])?
        .unwrap_or(0);
    let mut layers = Vec::new();
    for (sliding, shares_cache) in kinds(context, common.count, 6)? {
        let mut one = gemma4_layer(context, hidden, sliding, shares_cache)?;
        if own > 0 {
            one.tensors.extend(own_embedding(hidden, own));
        }
        push(&mut layers, one);
    }
    let mut parts = common.parts(context, layers, text.count(&["head_dim"])?.unwrap_or(256));
    if own > 0 {
        parts.outside.extend(own_embeddings(context, common, own)?);
    }
    Ok(parts)
}

fn gemma4_layer(
    context: &Context<'_>,
    hidden: u64,
    sliding: bool,
    shares_cache: bool,
) -> Result<Layer, ConfigError> {
    let text = context.text;
    let bias = text.is("attention_bias")?;
    let mixer = attention(&AttentionShape {
        window: if sliding {
            Window::Sliding(Tokens(text.length(&["sliding_window"])?.unwrap_or(1024)))
        } else {
            Window::Full
        },
        qkv_bias: bias,
        output_bias: bias,
        norm: QueryKeyNorm::PerHead,
        keys_are_values: !sliding && text.is("attention_k_eq_v")?,
        shares_cache,
        ..gemma4_heads(context, sliding)?.shape(hidden)
    });
    let mut width = text.need(&["intermediate_size"], "width of the feed-forward")?;
    if shares_cache && text.is("use_double_wide_mlp")? {
        width *= 2;
    }
    if !text.is("enable_moe_block")? {
        return Ok(layer(
            mixer,
            dense(hidden, width, true, false),
            norms(4, 1, hidden),
        ));
    }
    let count = text.need(&["num_experts"], "number of experts")?;
    let chosen = text.need(
        &["top_k_experts", "num_experts_per_tok"],
        "number of experts that work on a token",
    )?;
    let expert_width = text.need(&["moe_intermediate_size"], "width of an expert")?;
    let (feed_forward, mut tensors) = experts(&ExpertShape {
        // The dense part works on every token, as a shared expert does.
        shared_width: width,
        ..ExpertShape::new(hidden, count, chosen, expert_width).checked("top_k_experts")?
    });
    tensors.push(Tensor::vector(
        "router.scales",
        Role::Router,
        hidden + count,
    ));
    Ok(layer(mixer, (feed_forward, tensors), norms(7, 1, hidden)))
}

fn gemma4_heads(context: &Context<'_>, sliding: bool) -> Result<Heads, ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let mut kv_heads = text.count(&["num_key_value_heads"])?.unwrap_or(heads);
    let mut dim = text.count(&["head_dim"])?.unwrap_or(256);
    if !sliding {
        dim = text.count(&["global_head_dim"])?.unwrap_or(dim);
        kv_heads = text
            .count(&["num_global_key_value_heads"])?
            .unwrap_or(kv_heads);
    }
    Heads {
        heads,
        kv_heads,
        dim,
    }
    .checked("`num_attention_heads`")
}
