//! LongCat-Flash: a block is two latent attentions with a dense part each, and experts that work
//! beside the second.
//!
//! It is described as three layers, so that each keeps one mixer and one feed-forward.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{ExpertShape, dense, experts, layer, norms, push},
    common::Common,
    latent,
};
use gpuwise_domain::model::Mixer;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    (model_type == "longcat_flash").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let blocks = text.layers(&["num_layers", "num_hidden_layers"])?;
    let common = Common::of_depth(context, blocks, false)?;
    let hidden = common.hidden;
    let width = text.need(
        &["ffn_hidden_size", "intermediate_size"],
        "width of the feed-forward",
    )?;
    let number = text.need(&["n_routed_experts"], "number of experts")?;
    let empty = text.count_or_zero(&["zero_expert_num"])?.unwrap_or(0);
    let choices = text.need(&["moe_topk"], "number of experts that work on a token")?;
    ExpertShape::new(hidden, number + empty, choices, width).checked("moe_topk")?;
    // Empty experts hand the token on. Routing is balanced so that they get their share.
    let chosen = (choices * number).div_ceil(number + empty);
    let expert_width = text.need(
        &["expert_ffn_hidden_size", "moe_intermediate_size"],
        "width of an expert",
    )?;
    let mut layers = Vec::new();
    for index in 0..blocks {
        for _ in 0..2 {
            let mixer = latent::latent_attention(context, hidden, index)?;
            push(
                &mut layers,
                layer(
                    mixer,
                    dense(hidden, width, true, false),
                    norms(2, 1, hidden),
                ),
            );
        }
        let feed_forward = experts(&ExpertShape {
            empty,
            ..ExpertShape::new(hidden, number, chosen, expert_width)
        });
        push(
            &mut layers,
            layer((Mixer::None, Vec::new()), feed_forward, None),
        );
    }
    let rotary = text.count_or_zero(&["qk_rope_head_dim"])?.unwrap_or(64);
    let mut parts = common.parts(context, layers, rotary);
    if empty > 0 {
        parts.assumptions.push(format!(
            "of {choices} choices a token, {chosen} fall on experts that compute: {empty} of {} are empty",
            number + empty
        ));
    }
    Ok(parts)
}
