//! Hybrids of Mamba and attention: Nemotron-H, Jamba, Granite-4, Bamba and Falcon-H1.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{ExpertShape, OutputGate, QueryKeyNorm, dense, experts, layer, norms, push},
    common::{Common, Heads, plain_attention, usual_feed_forward},
    fields::Fields,
    mamba::{Mamba2, mamba1, mamba2, state_bytes},
    standard,
};
use gpuwise_domain::model::{FeedForward, LayerRun, Mixer, Tensor};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "nemotron_h" => Some(read_nemotron),
        "jamba" => Some(read_jamba),
        "granitemoehybrid" | "bamba" => Some(read_granite),
        "falcon_h1" => Some(read_falcon),
        _ => None,
    }
}

type Fed = (FeedForward, Vec<Tensor>);

fn nothing() -> Fed {
    (FeedForward::None, Vec::new())
}

/// Nemotron-H: a layer is a mixer or a feed-forward, never both.
fn read_nemotron(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let stated = match text.raw("num_hidden_layers") {
        Some(_) => Some(text.layers(&["num_hidden_layers"])?),
        None => None,
    };
    let kinds = nemotron_kinds(text, stated)?;
    let common = Common::of_depth(context, kinds.len() as u64, false)?;
    let hidden = common.hidden;
    let heads = text.need(&["mamba_num_heads"], "recurrent layers")?;
    let head_dim = text.need(&["mamba_head_dim"], "recurrent layers")?;
    let mamba = mamba2(&Mamba2 {
        groups: text.count(&["n_groups"])?.unwrap_or(8),
        state: text.count(&["ssm_state_size"])?.unwrap_or(128),
        kernel: text.count(&["conv_kernel"])?.unwrap_or(4),
        conv_bias: text.flag("use_conv_bias")?.unwrap_or(true),
        bias: text.is("use_bias")?,
        state_bytes: state_bytes(text)?,
        ..Mamba2::new(hidden, heads, head_dim)
    });
    let mut layers: Vec<LayerRun> = Vec::new();
    let none = || (Mixer::None, Vec::new());
    for kind in kinds {
        let norm = norms(1, 1, hidden);
        let one = match kind {
            Kind::Mamba => layer(mamba.clone(), nothing(), norm),
            Kind::Attention => {
                let attention =
                    plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?;
                layer(attention, nothing(), norm)
            }
            Kind::Experts => layer(none(), experts(&nemotron_experts(text, hidden)?), norm),
            Kind::Dense => {
                let width = text.need(&["intermediate_size"], "width of the feed-forward")?;
                layer(
                    none(),
                    dense(hidden, width, false, text.is("mlp_bias")?),
                    norm,
                )
            }
        };
        push(&mut layers, one);
    }
    Ok(common.parts(context, layers, 0))
}

fn nemotron_experts(text: Fields<'_>, hidden: u64) -> Result<ExpertShape, ConfigError> {
    let count = text.need(&["n_routed_experts"], "number of experts")?;
    let chosen = text.need(
        &["num_experts_per_tok"],
        "number of experts that work on a token",
    )?;
    let width = text.need(&["moe_intermediate_size"], "width of an expert")?;
    Ok(ExpertShape {
        input: text.count(&["moe_latent_size"])?.unwrap_or(hidden),
        gated: false,
        shared_width: text
            .count_or_zero(&["moe_shared_expert_intermediate_size"])?
            .unwrap_or(0),
        ..ExpertShape::new(hidden, count, chosen, width).checked("num_experts_per_tok")?
    })
}

/// What a layer of Nemotron-H is.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Mamba,
    Attention,
    Experts,
    Dense,
}

/// The kinds of layers; newer configurations state their number by listing them only.
fn nemotron_kinds(text: Fields<'_>, count: Option<u64>) -> Result<Vec<Kind>, ConfigError> {
    let (name, kinds): (&str, Vec<Option<Kind>>) =
        if let Some(types) = text.texts("layers_block_type")? {
            (
                "layers_block_type",
                types.into_iter().map(named_kind).collect(),
            )
        } else if let Some(types) = text.texts("layer_types")? {
            ("layer_types", types.into_iter().map(named_kind).collect())
        } else {
            let pattern = text
                .text("hybrid_override_pattern")?
                .ok_or(ConfigError::Missing {
                    field: "hybrid_override_pattern",
                    purpose: "order of recurrent, attention and feed-forward layers",
                })?;
            let letters = pattern.chars().filter(|c| *c != '|');
            (
                "hybrid_override_pattern",
                letters.map(lettered_kind).collect(),
            )
        };
    let listed = kinds.len() as u64;
    if count.unwrap_or(listed) != listed || listed == 0 || listed > 10_000 {
        return Err(ConfigError::Contradiction(format!(
            "`{name}` describes {listed} layers, `num_hidden_layers` says {}: expected one for each",
            count.map_or_else(|| "nothing".into(), |count| count.to_string())
        )));
    }
    let known: Option<Vec<Kind>> = kinds.into_iter().collect();
    known.ok_or_else(|| {
        ConfigError::Contradiction(format!(
            "`{name}` names a kind of layer that is not known; expected M (mamba), * (attention), E (moe) or - (mlp)"
        ))
    })
}

fn named_kind(name: &str) -> Option<Kind> {
    Some(match name {
        "mamba" | "linear_attention" => Kind::Mamba,
        "attention" | "full_attention" => Kind::Attention,
        "moe" => Kind::Experts,
        "mlp" | "dense" => Kind::Dense,
        _ => return None,
    })
}

fn lettered_kind(letter: char) -> Option<Kind> {
    Some(match letter {
        'M' => Kind::Mamba,
        '*' => Kind::Attention,
        'E' => Kind::Experts,
        '-' => Kind::Dense,
        _ => return None,
    })
}

fn read_jamba(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let period = text.count(&["attn_layer_period"])?.unwrap_or(8);
    let offset = text.count_or_zero(&["attn_layer_offset"])?.unwrap_or(4);
    let expert_period = text.count(&["expert_layer_period"])?.unwrap_or(2);
    let expert_offset = text.count_or_zero(&["expert_layer_offset"])?.unwrap_or(1);
    let width = text.need(&["intermediate_size"], "width of the feed-forward")?;
    let inner = text.count(&["mamba_expand"])?.unwrap_or(2) * hidden;
    let recurrent = mamba1(text, hidden, inner, true)?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        let mixer = if index % period == offset {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            recurrent.clone()
        };
        let shape = if index % expert_period == expert_offset {
            standard::expert_shape(context, hidden, index)?
        } else {
            None
        };
        let feed_forward = match shape {
            Some(shape) => experts(&shape),
            None => dense(hidden, width, true, false),
        };
        push(&mut layers, layer(mixer, feed_forward, norms(2, 1, hidden)));
    }
    Ok(common.parts(context, layers, 0))
}

/// The Mamba-2 of Granite-4, Bamba and Falcon-H1.
fn ibm_mamba(
    text: Fields<'_>,
    hidden: u64,
    norm: bool,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let inner = match text.count(&["mamba_d_ssm"])? {
        Some(stated) => stated,
        None => text.count(&["mamba_expand"])?.unwrap_or(2) * hidden,
    };
    let heads = text.count(&["mamba_n_heads"])?.unwrap_or(128);
    let head_dim = match text.raw("mamba_d_head") {
        // `auto`
        Some(serde_json::Value::String(_)) | None if inner.is_multiple_of(heads) => inner / heads,
        _ => text.need(&["mamba_d_head"], "recurrent heads")?,
    };
    Ok(mamba2(&Mamba2 {
        groups: text.count(&["mamba_n_groups"])?.unwrap_or(1),
        state: text.count(&["mamba_d_state"])?.unwrap_or(256),
        kernel: text.count(&["mamba_d_conv"])?.unwrap_or(4),
        conv_bias: text.flag("mamba_conv_bias")?.unwrap_or(true),
        bias: text.is("mamba_proj_bias")?,
        norm,
        state_bytes: state_bytes(text)?,
        ..Mamba2::new(hidden, heads, head_dim)
    }))
}

fn read_granite(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let mamba = ibm_mamba(text, hidden, true)?;
    let types = match text.texts_of_layers("layer_types", common.count)? {
        Some(own) => Some(own),
        None => text.texts_of_layers("layers_block_type", common.count)?,
    };
    let listed = text.counts("attn_layer_indices")?.unwrap_or_default();
    let mut layers = Vec::new();
    for index in 0..common.count {
        let is_attention = match &types {
            Some(types) => types
                .get(index as usize)
                .is_some_and(|kind| kind.contains("attention")),
            None => listed.contains(&index),
        };
        let mixer = if is_attention {
            plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?
        } else {
            mamba.clone()
        };
        push(
            &mut layers,
            layer(
                mixer,
                granite_feed_forward(context, hidden, index)?,
                norms(2, 1, hidden),
            ),
        );
    }
    let heads = Heads::read(context, hidden)?;
    let rotary = if text.text("position_embedding_type")? == Some("nope") {
        0
    } else {
        heads.dim
    };
    Ok(common.parts(context, layers, rotary))
}

fn granite_feed_forward(
    context: &Context<'_>,
    hidden: u64,
    index: u64,
) -> Result<Fed, ConfigError> {
    if context.model_type != "granitemoehybrid" {
        return usual_feed_forward(context, hidden, index);
    }
    if let Some(shape) = standard::expert_shape(context, hidden, index)? {
        return Ok(experts(&shape));
    }
    // Without experts the shared one is all there is.
    let width = context.text.need(
        &["shared_intermediate_size", "intermediate_size"],
        "width of the feed-forward",
    )?;
    Ok(dense(hidden, width, true, false))
}

/// Falcon-H1: Mamba-2 and attention side by side in every layer.
///
/// Each is described as a layer of its own, the second with the feed-forward, so that the state, the
/// cache and both outputs are counted.
fn read_falcon(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let mamba = ibm_mamba(text, hidden, text.is("mamba_rms_norm")?)?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        push(
            &mut layers,
            layer(mamba.clone(), nothing(), norms(1, 1, hidden)),
        );
        let attention = plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::None)?;
        let feed_forward = usual_feed_forward(context, hidden, index)?;
        push(
            &mut layers,
            layer(attention, feed_forward, norms(1, 1, hidden)),
        );
    }
    let heads = Heads::read(context, hidden)?;
    Ok(common.parts(context, layers, heads.dim))
}
