//! Qwen3-Next, Qwen3.5 and Olmo-Hybrid: the gated delta rule, with attention every few layers.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{OutputGate, QueryKeyNorm, layer, norms, push},
    common::{Common, full_layers, plain_attention, usual_feed_forward},
    mamba::state_bytes,
};
use gpuwise_domain::model::{LayerRun, Mixer, RecurrentState, Role, Split, Tensor};

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    match model_type {
        "qwen3_next" | "qwen3_5_text" | "qwen3_5_moe_text" | "qwen3_5" | "qwen3_5_moe"
        | "olmo_hybrid" => Some(read),
        _ => None,
    }
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, false)?;
    let hidden = common.hidden;
    let interval = text.count(&["full_attention_interval"])?.unwrap_or(4);
    let full = full_layers(context, common.count, |index| {
        (index + 1).is_multiple_of(interval)
    })?;
    let olmo = context.model_type == "olmo_hybrid";
    let recurrent = mixer(context, hidden)?;
    let mut layers = Vec::new();
    let mut last_full = None;
    for (index, is_full) in (0_u64..).zip(full) {
        let mixer = match (is_full, olmo) {
            (false, _) => recurrent.clone(),
            (true, true) => plain_attention(context, hidden, OutputGate::None, QueryKeyNorm::Full)?,
            (true, false) => {
                plain_attention(context, hidden, OutputGate::InQuery, QueryKeyNorm::PerHead)?
            }
        };
        let one = layer(
            mixer,
            usual_feed_forward(context, hidden, index)?,
            norms(2, 1, hidden),
        );
        if is_full {
            last_full = Some(one.clone());
        }
        push(&mut layers, one);
    }
    let mut parts = common.parts(context, layers, rotary_elements(context, olmo)?);
    let predicted = text.count_or_zero(&["mtp_num_hidden_layers", "num_nextn_predict_layers"])?;
    if let (Some(mut one), Some(count)) = (last_full, predicted.filter(|n| (1..=16).contains(n))) {
        one.tensors.push(Tensor::matrix(
            "mtp.fc",
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

fn rotary_elements(context: &Context<'_>, olmo: bool) -> Result<u64, ConfigError> {
    let text = context.text;
    let head_dim = text
        .count(&["head_dim"])?
        .unwrap_or(if olmo { 128 } else { 256 });
    let stated = match text.object("rope_parameters")? {
        Some(rope) => rope.real("partial_rotary_factor")?,
        None => text.real("partial_rotary_factor")?,
    };
    let share = stated.unwrap_or(if olmo { 1.0 } else { 0.25 }).min(1.0);
    Ok((head_dim as f64 * share) as u64)
}

/// The delta rule: keys and values of their own heads, one decay and one step a value head, and an
/// output gate as wide as the values.
fn mixer(context: &Context<'_>, hidden: u64) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let text = context.text;
    let key_heads = text.need(&["linear_num_key_heads"], "linear attention")?;
    let value_heads = text.need(&["linear_num_value_heads"], "linear attention")?;
    let key_dim = text.need(&["linear_key_head_dim"], "linear attention")?;
    let value_dim = text.need(&["linear_value_head_dim"], "linear attention")?;
    let kernel = text.count(&["linear_conv_kernel_dim"])?.unwrap_or(4);
    if !value_heads.is_multiple_of(key_heads) {
        return Err(ConfigError::Contradiction(format!(
            "`linear_num_key_heads` {key_heads} does not divide `linear_num_value_heads` {value_heads}"
        )));
    }
    let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
    let mixed = 2 * keys + values;
    let matrix =
        |name, role, rows, columns, split| Tensor::matrix(name, role, rows, columns, split);
    let tensors = vec![
        matrix(
            "in_proj_qkvz",
            Role::StateInput,
            mixed + values,
            hidden,
            Split::Output(key_heads),
        ),
        matrix(
            "in_proj_ba",
            Role::StateInput,
            2 * value_heads,
            hidden,
            Split::Output(value_heads),
        ),
        Tensor::vector("conv1d", Role::StateOther, mixed * kernel),
        Tensor::vector("decay", Role::StateOther, 2 * value_heads + value_dim),
        matrix(
            "out_proj",
            Role::StateOutput,
            hidden,
            values,
            Split::Input(value_heads),
        ),
    ];
    let state = RecurrentState {
        heads: value_heads,
        state_per_head: key_dim * value_dim,
        convolution: (kernel - 1) * mixed,
        state_bytes: state_bytes(text)?,
    };
    Ok((Mixer::Recurrent(state), tensors))
}
