//! Zamba2: Mamba-2 layers, some of which are preceded by one of a few shared transformer blocks.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{attention, dealt, dense, layer, norms, push, whole},
    common::{Common, Heads},
    mamba::{Mamba2, mamba2, state_bytes},
};
use gpuwise_domain::model::{FeedForward, Layer, Role};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    (model_type == "zamba2").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let hybrid = match text.texts_of_layers("layers_block_type", common.count)? {
        Some(kinds) => (0..common.count)
            .filter(|index| kinds.get(*index as usize) == Some(&"hybrid"))
            .collect(),
        None => text
            .counts("hybrid_layer_ids")?
            .ok_or(ConfigError::Missing {
                field: "hybrid_layer_ids",
                purpose: "order of shared and recurrent layers",
            })?,
    };
    let blocks = text.count(&["num_mem_blocks"])?.unwrap_or(1);
    let expand = text.count(&["mamba_expand"])?.unwrap_or(2);
    let heads = text.need(&["n_mamba_heads"], "recurrent layers")?;
    if !(expand * hidden).is_multiple_of(heads) {
        return Err(ConfigError::Contradiction(format!(
            "`n_mamba_heads` {heads} does not divide {expand} × `hidden_size` {hidden}"
        )));
    }
    let mamba = mamba2(&Mamba2 {
        groups: text.count(&["mamba_ngroups"])?.unwrap_or(1),
        state: text.count(&["mamba_d_state"])?.unwrap_or(64),
        kernel: text.count(&["mamba_d_conv"])?.unwrap_or(4),
        conv_bias: text.flag("use_conv_bias")?.unwrap_or(true),
        bias: text.is("add_bias_linear")?,
        state_bytes: state_bytes(text)?,
        ..Mamba2::new(hidden, heads, expand * hidden / heads)
    });
    let shared = shared_heads(context, hidden)?;
    let mut layers = Vec::new();
    let mut uses = 0;
    for index in 0..common.count {
        if hybrid.contains(&index) {
            push(
                &mut layers,
                shared_layer(context, hidden, shared, uses < blocks)?,
            );
            uses += 1;
        }
        let recurrent = layer(
            mamba.clone(),
            (FeedForward::None, Vec::new()),
            norms(1, 1, hidden),
        );
        push(&mut layers, recurrent);
    }
    let rotary = if text.is("use_mem_rope")? {
        shared.dim
    } else {
        0
    };
    let mut parts = common.parts(context, layers, rotary);
    if blocks < uses {
        parts.assumptions.push(format!(
            "{blocks} shared blocks are used in {uses} layers: weights and time count each block once"
        ));
    }
    Ok(parts)
}

/// Heads over the stream and the embedding side by side.
fn shared_heads(context: &Context<'_>, hidden: u64) -> Result<Heads, ConfigError> {
    let text = context.text;
    let heads = text.need(&["num_attention_heads"], "attention")?;
    let kv_heads = text.count(&["num_key_value_heads"])?.unwrap_or(heads);
    let joined = 2 * hidden;
    if !joined.is_multiple_of(heads) {
        return Err(ConfigError::Contradiction(format!(
            "`num_attention_heads` {heads} does not divide 2 × `hidden_size` {hidden}"
        )));
    }
    let dim = joined / heads;
    Heads {
        heads,
        kv_heads,
        dim,
    }
    .checked("`num_attention_heads`")
}

/// A use of a shared block, which sees the stream and the embedding side by side. Its first use
/// holds the weights; every use has thin adapters and a projection back of its own.
fn shared_layer(
    context: &Context<'_>,
    hidden: u64,
    heads: Heads,
    first_use: bool,
) -> Result<Layer, ConfigError> {
    let text = context.text;
    let joined = 2 * hidden;
    let width = text.count(&["intermediate_size"])?.unwrap_or(4 * hidden);
    let rank = text.count(&["adapter_rank"])?.unwrap_or(128);
    let (mixer, mut mixing) = attention(&heads.shape(joined));
    // Its input is twice as wide as its output.
    for tensor in mixing
        .iter_mut()
        .filter(|tensor| tensor.role == Role::AttentionOutput)
    {
        tensor.rows = hidden;
    }
    let (feed_forward, mut feeding) = dense(hidden, width, true, text.is("add_bias_linear")?);
    if !first_use {
        mixing.clear();
        feeding.clear();
    }
    mixing.push(whole("linear", Role::AttentionOutput, hidden, hidden));
    if text.is("use_shared_attention_adapter")? {
        mixing.push(whole("qkv_adapter_in", Role::Query, rank, joined).times(3));
        let shape = [joined, rank, heads.heads];
        mixing.push(dealt("qkv_adapter_out", Role::Query, shape).times(3));
    }
    feeding.push(whole("adapter_in", Role::MlpUp, rank, hidden));
    feeding.push(dealt("adapter_out", Role::MlpUp, [2 * width, rank, width]));
    let mut one = layer((mixer, mixing), (feed_forward, feeding), None);
    if first_use {
        one.tensors.extend(norms(1, 1, joined));
        one.tensors.extend(norms(1, 1, hidden));
    }
    Ok(one)
}
