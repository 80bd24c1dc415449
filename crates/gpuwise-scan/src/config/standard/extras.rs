//! Small tensors that only some families have.

use super::super::{ConfigError, Context, build::norms};
use gpuwise_domain::model::{FeedForward, Layer, Mixer, Role, Split, Tensor};

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
            select_blocks(context, hidden, index, layer)?;
        }
        _ => {}
    }
    Ok(())
}

/// MiniMax-M3's selection of blocks: small queries and one key a token in each sparse layer, which
/// then reads the best blocks only.
fn select_blocks(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
    layer: &mut Layer,
) -> Result<(), ConfigError> {
    let Some(sparse) = context.text.object("sparse_attention_config")? else {
        return Ok(());
    };
    if sparse.count_at(&["sparse_attention_freq"], index)? == Some(0) {
        return Ok(());
    }
    let heads = sparse.count(&["sparse_num_index_heads"])?.unwrap_or(4);
    let dim = sparse.count(&["sparse_index_dim"])?.unwrap_or(128);
    let blocks = sparse.length(&["sparse_topk_blocks"])?.unwrap_or(0);
    let block = sparse.length(&["sparse_block_size"])?.unwrap_or(0);
    if let Mixer::Attention {
        index_heads,
        index_dim,
        top_tokens,
        ..
    } = &mut layer.mixer
    {
        (*index_heads, *index_dim) = (heads, dim);
        *top_tokens = blocks.saturating_mul(block);
    }
    let matrix = |name, rows| Tensor::matrix(name, Role::Indexer, rows, hidden, Split::Replicated);
    layer.tensors.extend([
        matrix("index_q_proj", heads * dim),
        matrix("index_k_proj", dim),
        Tensor::vector("index_norms", Role::AttentionOther, dim).times(2),
    ]);
    Ok(())
}
