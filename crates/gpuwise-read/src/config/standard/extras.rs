//! Small tensors that only some families have.

use super::super::{ConfigError, Context, build::norms};
use gpuwise_domain::model::{FeedForward, Layer, Role, Split, Tensor};

/// Puts a family's small tensors into a layer.
pub(super) fn add(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
    layer: &mut Layer,
) -> Result<(), ConfigError> {
    match (context.model_type, layer.feed_forward) {
        // Norms before the output and the down projection.
        ("bitnet", FeedForward::Dense { width, .. }) => {
            layer.tensors.push(Tensor::vector(
                "attn_sub_norm",
                Role::AttentionOther,
                hidden,
            ));
            layer.tensors.extend(norms(1, 1, width));
        }
        // Its activation has two learned constants.
        ("apertus", _) => layer.tensors.push(Tensor::vector("act_fn", Role::MlpUp, 2)),
        ("minimax_m3" | "minimax_m3_text" | "minimax_m3_vl_text", _) => {
            layer.tensors.extend(block_indexer(context, hidden, index)?);
        }
        _ => {}
    }
    Ok(())
}

/// MiniMax-M3's selection of blocks: a small query and key per sparse layer.
fn block_indexer(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<Vec<Tensor>, ConfigError> {
    let Some(sparse) = context.text.object("sparse_attention_config")? else {
        return Ok(Vec::new());
    };
    if sparse.count_at(&["sparse_attention_freq"], index)? == Some(0) {
        return Ok(Vec::new());
    }
    let heads = sparse.count(&["sparse_num_index_heads"])?.unwrap_or(4);
    let dim = sparse.count(&["sparse_index_dim"])?.unwrap_or(128);
    Ok(vec![
        Tensor::matrix(
            "index_q_proj",
            Role::Indexer,
            heads * dim,
            hidden,
            Split::Replicated,
        ),
        Tensor::matrix(
            "index_k_proj",
            Role::Indexer,
            dim,
            hidden,
            Split::Replicated,
        ),
        Tensor::vector("index_norms", Role::AttentionOther, dim).times(2),
    ])
}
