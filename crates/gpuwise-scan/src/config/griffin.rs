//! RecurrentGemma (Griffin): a gated linear recurrence, with windowed attention every few layers.

use super::{
    ConfigError, Context, Parts, Reader,
    build::{AttentionShape, attention, dense, layer, norms, push},
    common::{Common, Heads},
};
use gpuwise_domain::model::{Mixer, RecurrentState, Role, Split, Tensor, Window};
use gpuwise_units::Tokens;

pub(super) fn reader(model_type: &str) -> Option<Reader> {
    (model_type == "recurrent_gemma").then_some(read)
}

fn read(context: &Context<'_>) -> Result<Parts, ConfigError> {
    let text = context.text;
    let common = Common::read(context, true)?;
    let hidden = common.hidden;
    let kinds = match text.texts("block_types")? {
        Some(kinds) if !kinds.is_empty() => kinds,
        _ => vec!["recurrent", "recurrent", "attention"],
    };
    // The width counts gate and up together.
    let width = text.need(&["intermediate_size"], "width of the feed-forward")? / 2;
    let window = Window::Sliding(Tokens(
        text.length(&["attention_window_size"])?.unwrap_or(2048),
    ));
    let heads = Heads::read(context, hidden)?;
    let bias = text.is("attention_bias")?;
    let mut layers = Vec::new();
    for index in 0..common.count {
        let is_attention = kinds.get(index as usize % kinds.len()) == Some(&"attention");
        let mixer = if is_attention {
            attention(&AttentionShape {
                window,
                qkv_bias: bias,
                output_bias: true,
                ..heads.shape(hidden)
            })
        } else {
            recurrence(context, hidden, heads.heads)?
        };
        push(
            &mut layers,
            layer(mixer, dense(hidden, width, true, true), norms(2, 1, hidden)),
        );
    }
    let rotary = text.real("partial_rotary_factor")?.unwrap_or(0.5).min(1.0);
    Ok(common.parts(context, layers, (heads.dim as f64 * rotary) as u64))
}

/// Two branches of the width of the recurrence, a short convolution, and gates that see their own
/// block of it only.
fn recurrence(
    context: &Context<'_>,
    hidden: u64,
    blocks: u64,
) -> Result<(Mixer, Vec<Tensor>), ConfigError> {
    let text = context.text;
    let width = text.count(&["lru_width"])?.unwrap_or(hidden);
    let kernel = text.count(&["conv1d_width"])?.unwrap_or(4);
    if !width.is_multiple_of(blocks) {
        return Err(ConfigError::Contradiction(format!(
            "`lru_width` {width} is no multiple of `num_attention_heads` {blocks}"
        )));
    }
    let split = Split::Output(blocks);
    let input = |name| Tensor::matrix(name, Role::StateInput, width, hidden, split);
    let gate = |name| Tensor::matrix(name, Role::StateInput, width, width / blocks, split);
    let vector = |name, length| Tensor::vector(name, Role::StateOther, length);
    let tensors = vec![
        input("linear_y"),
        input("linear_x"),
        gate("input_gate"),
        gate("recurrent_gate"),
        Tensor::matrix(
            "linear_out",
            Role::StateOutput,
            hidden,
            width,
            Split::Input(blocks),
        ),
        vector("conv_1d", width * (kernel + 1)),
        vector("recurrent_param", width),
        vector("linear.bias", 2 * width + hidden),
        vector("gates.bias", 2 * width),
    ];
    let state = RecurrentState {
        heads: blocks,
        state_per_head: width / blocks,
        convolution: (kernel - 1) * width,
        // The reference keeps it in single precision.
        state_bytes: 4,
    };
    Ok((Mixer::Recurrent(state), tensors))
}
