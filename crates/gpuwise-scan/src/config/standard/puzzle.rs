//! `block_configs`, as searched architectures (Puzzle) have them: every layer has its own number of
//! key-value heads and width, and may lack either part.

use super::super::{
    ConfigError, Context,
    build::{AttentionShape, attention, dense},
};
use super::{Fed, Mixed};
use gpuwise_domain::model::{FeedForward, Mixer, Role, Split, Tensor};
use serde_json::Value;

/// The entry of one layer; `None` for models without such a list.
pub(super) fn block<'a>(
    context: &Context<'a>,
    index: u64,
) -> Result<Option<&'a Value>, ConfigError> {
    let Some(blocks) = context.text.list("block_configs")? else {
        return Ok(None);
    };
    match blocks.get(index as usize) {
        Some(block) => Ok(Some(block)),
        None => Err(ConfigError::Contradiction(format!(
            "`block_configs` lists {} layers, fewer than `num_hidden_layers`: expected one for each",
            blocks.len()
        ))),
    }
}

fn is(part: &Value, key: &str) -> bool {
    part[key].as_bool() == Some(true)
}

/// The attention of a block: removed, replaced by one matrix, or with heads in groups of its own.
pub(super) fn block_attention(
    block: &Value,
    shape: AttentionShape,
    index: u64,
) -> Result<Mixed, ConfigError> {
    let part = &block["attention"];
    if is(part, "no_op") {
        return Ok(None);
    }
    if is(part, "replace_with_linear") {
        let matrix = Tensor::matrix(
            "linear_attn",
            Role::AttentionOutput,
            shape.hidden,
            shape.hidden,
            Split::Replicated,
        );
        return Ok(Some((Mixer::None, vec![matrix])));
    }
    let group = match &part["n_heads_in_group"] {
        Value::Null => return Ok(Some(attention(&shape))),
        stated => stated
            .as_u64()
            .filter(|group| 0 < *group && shape.heads.is_multiple_of(*group)),
    };
    let Some(group) = group else {
        return Err(ConfigError::Contradiction(format!(
            "`block_configs` of layer {index}: `n_heads_in_group` {} does not divide the {} heads",
            part["n_heads_in_group"], shape.heads
        )));
    };
    Ok(Some(attention(&AttentionShape {
        kv_heads: shape.heads / group,
        ..shape
    })))
}

/// The feed-forward of a block: removed, replaced by one matrix, or as wide as a factor says.
pub(super) fn block_feed_forward(
    block: &Value,
    hidden: u64,
    index: u64,
) -> Result<Fed, ConfigError> {
    let part = &block["ffn"];
    if is(part, "no_op") {
        return Ok(None);
    }
    if is(part, "replace_with_linear") {
        let matrix = Tensor::matrix("linear_mlp", Role::MlpUp, hidden, hidden, Split::Replicated);
        let feed_forward = FeedForward::Dense {
            width: hidden,
            gated: false,
        };
        return Ok(Some((feed_forward, vec![matrix])));
    }
    let factor = part["ffn_mult"]
        .as_f64()
        .filter(|factor| 0.0 < *factor && *factor <= 1024.0);
    let Some(factor) = factor else {
        return Err(ConfigError::Contradiction(format!(
            "`block_configs` of layer {index}: `ffn_mult` is {}; expected a number above 0 and up to 1024",
            part["ffn_mult"]
        )));
    };
    // The reference rounds 2/3 of factor × hidden up to a multiple of 256.
    let wanted = (2.0 * factor * hidden as f64 / 3.0) as u64;
    Ok(Some(dense(hidden, wanted.div_ceil(256) * 256, true, false)))
}
