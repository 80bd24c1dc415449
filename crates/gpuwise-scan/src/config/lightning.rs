//! MiniMax-Text-01 and M1: lightning attention with softmax attention every eighth layer; and LFM2:
//! short convolutions with attention in some layers.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{OutputGate, QueryKeyNorm, dense, experts, layer, norms, push},
    common::{Common, Heads, full_layers, plain_attention, usual_feed_forward},
    standard,
};
use gpuwise_domain::model::{Mixer, RecurrentState, Role, Split, Tensor};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "minimax" | "minimax_text_01" | "minimax_m1" => Some(read_lightning),
        "lfm2" | "lfm2_moe" => Some(read_convolution),
        _ => None,
    }
}

fn read_lightning(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let heads = Heads::read(context, hidden)?;
    let kinds = text.counts_of_layers("attn_type_list", common.count)?;
    let full = full_layers(context, common.count, |index| match &kinds {
        Some(kinds) => kinds.get(index as usize) == Some(&1),
        None => index % 8 == 7,
    })?;
    let mut layers = Vec::new();
    for (index, is_full) in (0_u64..).zip(full) {
        let mixer = if is_full {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            lightning(heads, hidden)
        };
        let feed_forward = usual_feed_forward(context, hidden, index)?;
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, heads.dim))
}

/// Linear attention with a fixed decay a head, and an output gate.
fn lightning(heads: Heads, hidden: u64) -> (Mixer, Vec<Tensor>) {
    let Heads { heads, dim, .. } = heads;
    let inner = heads * dim;
    let matrix =
        |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let tensors = vec![
        matrix(
            "qkv_proj",
            Role::StateInput,
            3 * inner,
            hidden,
            Split::Output(heads),
        ),
        matrix(
            "output_gate",
            Role::StateInput,
            inner,
            hidden,
            Split::Output(heads),
        ),
        Tensor::vector("norm", Role::StateOther, inner),
        matrix(
            "out_proj",
            Role::StateOutput,
            hidden,
            inner,
            Split::Input(heads),
        ),
    ];
    let state = RecurrentState {
        heads,
        state_per_head: dim * dim,
        convolution: 0,
        // The reference keeps it in single precision.
        state_bytes: 4,
    };
    (Mixer::Recurrent(state), tensors)
}

fn read_convolution(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let kernel = text.count(&["conv_L_cache"])?.unwrap_or(3);
    let listed = text.counts("full_attn_idxs")?.unwrap_or_default();
    let full = full_layers(context, common.count, |index| listed.contains(&index))?;
    let mut width = text.need(
        &["block_ff_dim", "intermediate_size"],
        "width of the feed-forward",
    )?;
    if text.is("block_auto_adjust_ff_dim")? {
        let multiple = text.count(&["block_multiple_of"])?.unwrap_or(256);
        width = (2 * width / 3).div_ceil(multiple) * multiple;
    }
    let mut layers = Vec::new();
    for (index, is_full) in (0_u64..).zip(full) {
        let mixer = if is_full {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::PerHead)?
        } else {
            convolution(hidden, kernel)
        };
        let feed_forward = match standard::expert_shape(context, hidden, index)? {
            Some(shape) => experts(&shape),
            None => dense(hidden, width, true, false),
        };
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    let heads = Heads::read(context, hidden)?;
    Ok(common.parts(context, layers, heads.dim))
}

/// A short convolution between two gates, which keeps the last inputs only.
fn convolution(hidden: u64, kernel: u64) -> (Mixer, Vec<Tensor>) {
    let matrix =
        |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let tensors = vec![
        matrix(
            "in_proj",
            Role::StateInput,
            3 * hidden,
            hidden,
            Split::Output(hidden),
        ),
        Tensor::vector("conv", Role::StateOther, kernel * hidden),
        matrix(
            "out_proj",
            Role::StateOutput,
            hidden,
            hidden,
            Split::Input(hidden),
        ),
    ];
    let state = RecurrentState {
        heads: hidden,
        state_per_head: 0,
        convolution: (kernel - 1) * hidden,
        state_bytes: 2,
    };
    (Mixer::Recurrent(state), tensors)
}
