//! Latent attention: DeepSeek, Kimi, GLM-5 and all that keep one compressed vector a token.

use super::{
    ConfigError, Context, Parts,
    build::{dealt, gathered, layer, norms, push, whole},
    common::{Common, usual_feed_forward},
};
use gpuwise_domain::model::{FeedForward, Layer, LayerRun, Mixer, Role, Split, Tensor};

/// Whether a configuration describes latent attention, whatever its type.
pub(super) fn is_latent(context: &Context<'_>) -> Result<bool, ConfigError> {
    Ok(context
        .text
        .count_or_zero(&["kv_lora_rank"])?
        .is_some_and(|rank| rank > 0))
}

pub(super) fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    // It is looked at as a whole once, so that a list of wrong length is noticed.
    text.texts_of_layers("mlp_layer_types", common.count)?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        push(&mut layers, latent_layer(context, hidden, index)?);
    }
    let rotary = text.count_or_zero(&["qk_rope_head_dim"])?.unwrap_or(64);
    let mut parts = common.parts(context, layers, rotary);
    let predicted = text.count_or_zero(&["num_nextn_predict_layers"])?;
    if let Some(count) = predicted.filter(|count| (1..=16).contains(count)) {
        let mut one = latent_layer(context, hidden, common.count - 1)?;
        one.tensors.push(Tensor::matrix(
            "eh_proj",
            Role::MlpUp,
            hidden,
            2 * hidden,
            Split::Replicated,
        ));
        one.tensors.extend(norms(3, 1, hidden));
        parts.prediction.push(LayerRun { count, layer: one });
    }
    Ok(parts)
}

fn latent_layer(context: &Context<'_>, hidden: u64, index: u64) -> Result<Layer, ConfigError> {
    let mixer = latent_attention(context, hidden, index)?;
    let feed_forward = usual_feed_forward(context, hidden, index)?;
    let sparse = matches!(feed_forward.0, FeedForward::Experts { .. });
    let mut one = layer(mixer, feed_forward, norms(2, 1, hidden));
    if sparse && context.model_type == "axk1" {
        // The output of its experts is normed once more.
        one.tensors.extend(norms(1, 1, hidden));
    }
    Ok(one)
}

pub(super) fn latent_attention(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let kv_rank = text.need(&["kv_lora_rank"], "latent cache")?;
    // 0 stands for no rotary part.
    let rotary_dim = text
        .count_or_zero(&["qk_rope_head_dim"])?
        .ok_or(ConfigError::Missing {
            field: "qk_rope_head_dim",
            purpose: "latent cache",
        })?;
    let plain_dim = text.need(&["qk_nope_head_dim"], "query heads")?;
    let value_dim = text.need(&["v_head_dim"], "value heads")?;
    let query_rank = text.count_or_zero(&["q_lora_rank"])?;
    let query_rank = query_rank.filter(|rank| *rank > 0);
    let key_dim = plain_dim + rotary_dim;
    let values = heads * value_dim;
    let mut tensors = queries(hidden, heads, key_dim, query_rank);
    let joined = heads * plain_dim + values;
    tensors.extend([
        whole("kv_a_proj", Role::LatentDown, kv_rank + rotary_dim, hidden),
        Tensor::vector("kv_a_norm", Role::AttentionOther, kv_rank),
        dealt("kv_b_proj", Role::LatentKeyValue, [joined, kv_rank, heads]),
        gathered("o_proj", Role::AttentionOutput, [hidden, values, heads]),
    ]);
    let index_dim = text.count(&["index_head_dim"])?;
    let index_heads = text.count(&["index_n_heads"])?;
    // A layer that takes the index of an earlier one scores nothing and keeps no index keys.
    let (index_heads, index_dim) = match (index_heads, index_dim) {
        (Some(heads), Some(dim)) if has_indexer(context, index)? => (heads, dim),
        _ => (0, 0),
    };
    if index_heads > 0 {
        tensors.extend(indexer(
            hidden,
            index_heads,
            index_dim,
            query_rank.unwrap_or(hidden),
        ));
    }
    let mixer = Mixer::Latent {
        heads,
        kv_rank,
        rotary_dim,
        plain_dim,
        value_dim,
        index_heads,
        index_dim,
        index_pool: 1,
        top_tokens: text.length(&["index_topk"])?.unwrap_or(0),
    };
    Ok((mixer, tensors))
}

/// Queries, through a latent of their own where it has a rank.
fn queries(hidden: u64, heads: u64, key_dim: u64, rank: Option<u64>) -> Vec<Tensor> {
    let rows = heads * key_dim;
    let Some(rank) = rank else {
        return vec![dealt("q_proj", Role::Query, [rows, hidden, heads])];
    };
    vec![
        whole("q_a_proj", Role::LatentDown, rank, hidden),
        Tensor::vector("q_a_norm", Role::AttentionOther, rank),
        dealt("q_b_proj", Role::LatentQuery, [rows, rank, heads]),
    ]
}

/// What scores earlier tokens for sparse attention; every rank scores all.
fn indexer(hidden: u64, heads: u64, dim: u64, query_rank: u64) -> Vec<Tensor> {
    let matrix =
        |name, rows, columns| Tensor::matrix(name, Role::Indexer, rows, columns, Split::Replicated);
    vec![
        matrix("indexer.wq_b", heads * dim, query_rank),
        matrix("indexer.wk", dim, hidden),
        matrix("indexer.weights", heads, hidden),
        Tensor::vector("indexer.norm", Role::AttentionOther, dim).times(2),
    ]
}

/// Whether a layer scores its own index, or takes that of an earlier layer.
fn has_indexer(context: &Context<'_>, index: u64) -> Result<bool, ConfigError> {
    Ok(context
        .text
        .text_at("indexer_types", index)?
        .is_none_or(|kind| kind == "full"))
}
