//! Dense layers and experts, by the many ways in which configurations spell them.

use super::super::{
    ConfigError, Context,
    build::{ExpertShape, dense, experts},
};
use super::{Fed, puzzle, style::Style};

pub(super) fn feed_forward(
    context: &Context<'_>,
    style: &Style,
    hidden: u64,
    index: u64,
) -> Result<Fed, ConfigError> {
    if let Some(block) = puzzle::block(context, index)? {
        return puzzle::block_feed_forward(block, hidden, index);
    }
    if let Some(shape) = expert_shape(context, hidden, index)? {
        return Ok(Some(experts(&ExpertShape {
            gated: style.gated,
            ..shape
        })));
    }
    let text = context.text;
    let names: &[&'static str] = match context.model_type {
        "llama4_text" => &["intermediate_size_mlp", "intermediate_size"],
        "minimax_m3" | "minimax_m3_text" | "minimax_m3_vl_text" => {
            &["dense_intermediate_size", "intermediate_size"]
        }
        "granitemoeshared" => &["shared_intermediate_size", "intermediate_size"],
        _ => &[
            "intermediate_size",
            "ffn_hidden_size",
            "n_inner",
            "ffn_dim",
            "hidden_dim",
        ],
    };
    let width = text.count_at(names, index)?.filter(|width| *width > 0);
    let width = width.ok_or(ConfigError::Missing {
        field: "intermediate_size",
        purpose: "width of the feed-forward",
    })?;
    // The first Qwen counts gate and up together.
    let width = if context.model_type == "qwen" {
        width / 2
    } else {
        width
    };
    Ok(Some(dense(hidden, width, style.gated, style.mlp_bias)))
}

/// The experts of a layer, or `None` where it is dense.
pub(in super::super) fn expert_shape(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<Option<ExpertShape>, ConfigError> {
    let text = context.text;
    let counted = text.count_at(
        &[
            "num_local_experts",
            "n_routed_experts",
            "num_experts",
            "moe_num_experts",
            "num_routed_experts",
        ],
        index,
    )?;
    let count = match counted {
        Some(count) if 1 < count && is_sparse(context, index)? => count,
        _ => return Ok(None),
    };
    let chosen = chosen(context, index)?;
    let width = text
        .count_at(
            &[
                "moe_intermediate_size",
                "expert_ffn_hidden_size",
                "intermediate_size",
            ],
            index,
        )?
        .filter(|width| *width > 0)
        .ok_or(ConfigError::Missing {
            field: "moe_intermediate_size",
            purpose: "width of an expert",
        })?;
    let gpt_oss = context.model_type == "gpt_oss";
    Ok(Some(ExpertShape {
        shared_width: shared_width(context, width, index)?,
        shared_gate: matches!(
            context.model_type,
            "qwen2_moe" | "qwen3_next" | "qwen3_5_moe_text"
        ),
        // In these the correction of scores is a parameter.
        router_bias: gpt_oss || matches!(context.model_type, "ernie4_5_moe" | "afmoe" | "laguna"),
        expert_bias: gpt_oss,
        ..ExpertShape::new(hidden, count, chosen, width).checked("num_experts_per_tok")?
    }))
}

/// Experts that work on a token.
fn chosen(context: &Context<'_>, index: u64) -> Result<u64, ConfigError> {
    let stated = context.text.count_at(
        &[
            "num_experts_per_tok",
            "experts_per_token",
            "num_experts_per_token",
            "moe_top_k",
            "top_k_experts",
            "moe_k",
            "moe_topk",
            "num_selected_experts",
        ],
        index,
    )?;
    stated.ok_or(ConfigError::Missing {
        field: "num_experts_per_tok",
        purpose: "number of experts that work on a token",
    })
}

fn shared_width(context: &Context<'_>, width: u64, index: u64) -> Result<u64, ConfigError> {
    let text = context.text;
    if context.model_type == "llama4_text" {
        return Ok(width);
    }
    if let Some(stated) = text.count_or_zero(&[
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
    ])? {
        return Ok(stated);
    }
    if matches!(context.model_type, "granitemoeshared" | "granitemoehybrid") {
        return Ok(text
            .count_or_zero(&["shared_intermediate_size"])?
            .unwrap_or(0));
    }
    let number = text.count_at(
        &[
            "n_shared_experts",
            "num_shared_experts",
            "moe_num_shared_experts",
            "num_shared_expert",
        ],
        index,
    )?;
    Ok(number.unwrap_or(0) * width)
}

/// Whether a layer of a mixture-of-experts model has experts.
fn is_sparse(context: &Context<'_>, index: u64) -> Result<bool, ConfigError> {
    let text = context.text;
    if let Some(kind) = text.text_at("mlp_layer_types", index)? {
        return Ok(kind == "sparse");
    }
    if let Some(dense_layers) = text.counts("mlp_only_layers")?
        && dense_layers.contains(&index)
    {
        return Ok(false);
    }
    if let Some(moe_layers) = text.counts("moe_layers")?
        && !moe_layers.is_empty()
    {
        return Ok(moe_layers.contains(&index));
    }
    let stated = text.count_or_zero(&[
        "first_k_dense_replace",
        "moe_layer_start_index",
        "num_dense_layers",
    ])?;
    let first_sparse = match stated {
        Some(stated) => stated,
        None if matches!(context.model_type, "step3p5" | "step3p7" | "glm5_next_text") => 3,
        None => 0,
    };
    if index < first_sparse {
        return Ok(false);
    }
    if let Some(last) = text.count_or_zero(&["moe_layer_end_index"])?
        && last < index
    {
        return Ok(false);
    }
    if text
        .raw("moe_layer_freq")
        .is_some_and(serde_json::Value::is_array)
    {
        return Ok(text.count_at(&["moe_layer_freq"], index)? != Some(0));
    }
    if let Some(every) = text.count(&["moe_layer_freq"])? {
        return Ok(index.is_multiple_of(every));
    }
    let step = text.count(&[
        "interleave_moe_layer_step",
        "decoder_sparse_step",
        "moe_layer_interval",
    ])?;
    Ok((index + 1).is_multiple_of(step.unwrap_or(1)))
}
