//! Decoders of the common form: attention and a feed-forward in every layer, with the small
//! differences between families.

mod extras;
mod feed_forward;
mod heads;
mod puzzle;
mod style;

pub(super) use feed_forward::expert_shape;

use super::{
    ConfigError, Context, Parts,
    build::{AttentionShape, attention, layer, norms, outside_with, push},
    common::Common,
};
use gpuwise_domain::model::{FeedForward, Layer, LayerRun, Mixer, Role, Split, Tensor};
use heads::Plan;
use style::{Style, style};

/// A mixer with its tensors; `None` where the layer has none.
type Mixed = Option<(Mixer, Vec<Tensor>)>;
/// A feed-forward with its tensors; `None` where the layer has none.
type Fed = Option<(FeedForward, Vec<Tensor>)>;

pub(super) fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let style = style(context)?;
    if style.known {
        return read_style(context, &style);
    }
    let model_type = context.model_type;
    let mut parts = read_style(context, &style).map_err(|error| match error {
        missing @ ConfigError::Missing { .. } => ConfigError::UnknownType {
            model_type: model_type.into(),
            reason: Box::new(missing),
        },
        other => other,
    })?;
    parts.assumptions.push(if model_type.is_empty() {
        "no model_type is given: read as a Llama-like decoder from its usual fields".into()
    } else {
        format!("model_type {model_type:?} is not known: read as a Llama-like decoder from its usual fields")
    });
    Ok(parts)
}

fn read_style(context: &Context<'_>, style: &Style) -> Result<Parts, ConfigError> {
    let text = context.text;
    let mut common = Common::read(context, style.tied)?;
    let hidden = common.hidden;
    let plan = Plan::read(context, hidden, common.count)?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        push(
            &mut layers,
            one_layer(context, style, &plan, hidden, index)?,
        );
    }
    let stated = common.vocabulary;
    if context.model_type == "step3p7" {
        // The reference reads a flat configuration of this composite type with its class default.
        common.vocabulary = 128_815;
    }
    let extra = text
        .length_or_zero(&["additional_vocab_size"])?
        .unwrap_or(0);
    let mut parts = common.parts(context, layers, plan.rotary_elements);
    parts.outside = outside_with(
        extra,
        common.vocabulary,
        hidden,
        common.tied,
        style.norm_parts,
    );
    if style.head_bias {
        parts.outside.push(Tensor::vector(
            "lm_head.bias",
            Role::Head,
            common.vocabulary,
        ));
    }
    if stated != common.vocabulary {
        parts.assumptions.push(format!(
            "vocabulary of {}, the class default, instead of {stated}",
            common.vocabulary
        ));
    }
    if context.model_type == "phi4mm" {
        parts.assumptions.push(
            "vision and audio towers and their LoRAs are not described in this configuration: not counted".into(),
        );
    }
    parts.prediction = prediction(context, style, &plan, common)?;
    Ok(parts)
}

fn one_layer(
    context: &Context<'_>,
    style: &Style,
    plan: &Plan<'_>,
    hidden: u64,
    index: u64,
) -> Result<Layer, ConfigError> {
    let mixer = mixer(context, style, plan, hidden, index)?;
    let fed = feed_forward::feed_forward(context, style, hidden, index)?;
    // A part that pruning removed takes its norm along.
    let present = u64::from(mixer.is_some()) + u64::from(fed.is_some());
    let count = if present == 2 { style.norms } else { present };
    let mut one = layer(
        mixer.unwrap_or((Mixer::None, Vec::new())),
        fed.unwrap_or((FeedForward::None, Vec::new())),
        norms(count, style.norm_parts, hidden),
    );
    extras::add(context, hidden, index, &mut one)?;
    Ok(one)
}

fn mixer(
    context: &Context<'_>,
    style: &Style,
    plan: &Plan<'_>,
    hidden: u64,
    index: u64,
) -> Result<Mixed, ConfigError> {
    let planned = plan.shape(context, hidden, index)?;
    let shape = AttentionShape {
        qkv_bias: style.qkv_bias,
        output_bias: style.output_bias,
        norm: style.query_key_norm,
        gate: style.gate,
        sinks: style.sinks || planned.sinks,
        ..planned
    };
    match puzzle::block(context, index)? {
        Some(block) => puzzle::block_attention(block, shape, index),
        None => Ok(Some(attention(&shape))),
    }
}

/// Multi-token-prediction layers: a projection of two streams into one, and a layer.
fn prediction(
    context: &Context<'_>,
    style: &Style,
    plan: &Plan<'_>,
    common: Common,
) -> Result<Vec<LayerRun>, ConfigError> {
    let stated = context.text.count_or_zero(&[
        "num_nextn_predict_layers",
        "mtp_num_hidden_layers",
        "num_mtp_modules",
    ])?;
    let Some(count) = stated.filter(|count| (1..=16).contains(count)) else {
        return Ok(Vec::new());
    };
    let hidden = common.hidden;
    let mut one = one_layer(context, style, plan, hidden, common.count - 1)?;
    one.tensors.push(Tensor::matrix(
        "eh_proj",
        Role::MlpUp,
        hidden,
        2 * hidden,
        Split::Replicated,
    ));
    one.tensors.extend(norms(3, style.norm_parts, hidden));
    Ok(vec![LayerRun { count, layer: one }])
}
