//! Denoisers of images: FLUX, Stable Diffusion 3, Qwen-Image.

use super::{
    super::tracer::{Attention, Kernel, Tracer, product},
    Double, TIME_CHANNELS, Tokens, double, embed, head_norms, last, pair, single,
};
use gpuwise_domain::network::{FluxDenoiser, QwenImage, StableDiffusion3};

/// FLUX.1 and FLUX.2.
pub(in super::super) fn flux(tracer: &mut Tracer, shape: &FluxDenoiser, tokens: Tokens) {
    let hidden = product(&[shape.heads, shape.head_width]);
    let bias = !shape.second;
    embed(tracer, "time", shape.time_channels, hidden, bias);
    if shape.guidance {
        embed(tracer, "guidance", shape.time_channels, hidden, bias);
    }
    if shape.pooled_width > 0 {
        embed(tracer, "pooled_text", shape.pooled_width, hidden, bias);
    }
    if shape.second {
        tracer.linears("modulation.double", 2, 1, (hidden, 6 * hidden), false);
        tracer.linear("modulation.single", 1, (hidden, 3 * hidden), false);
    }
    tracer.linear("image", tokens.image, (shape.input_channels, hidden), bias);
    tracer.linear("text", tokens.text, (shape.text_width, hidden), bias);
    let block = Double {
        hidden,
        heads: shape.heads,
        head_width: shape.head_width,
        feed_forward: shape.feed_forward,
        gated: shape.second,
        bias,
        head_norms: true,
        modulated: !shape.second,
    };
    tracer.repeat(shape.double_blocks, |tracer| {
        double(tracer, pair(tokens, true), &block);
    });
    let both = tokens.image.saturating_add(tokens.text);
    tracer.repeat(shape.single_blocks, |tracer| single(tracer, both, &block));
    last(tracer, tokens.image, hidden, shape.output_channels, bias);
}

/// Stable Diffusion 3 over latents of so many positions.
pub(in super::super) fn stable_diffusion_3(
    tracer: &mut Tracer,
    shape: &StableDiffusion3,
    latents: u64,
    tokens: Tokens,
) {
    let hidden = product(&[shape.heads, shape.head_width]);
    let area = product(&[shape.patch, shape.patch]);
    let kernel = Kernel {
        elements: area,
        ..Kernel::square(shape.input_channels, hidden, 1)
    };
    tracer.convolution("patches", &kernel, latents, tokens.image);
    embed(tracer, "time", TIME_CHANNELS, hidden, true);
    embed(tracer, "pooled_text", shape.pooled_width, hidden, true);
    tracer.linear("text", tokens.text, (shape.text_width, hidden), true);
    let block = Double {
        hidden,
        heads: shape.heads,
        head_width: shape.head_width,
        feed_forward: 4 * hidden,
        gated: false,
        bias: true,
        head_norms: shape.head_norms,
        modulated: true,
    };
    for index in 0..shape.blocks {
        // The text ends in the last block.
        double(tracer, pair(tokens, index + 1 < shape.blocks), &block);
        if index < shape.dual_blocks {
            second_attention(tracer, tokens.image, &block);
        }
    }
    last(
        tracer,
        tokens.image,
        hidden,
        product(&[area, shape.output_channels]),
        true,
    );
}

/// Attention of the image alone, beside that with the text.
fn second_attention(tracer: &mut Tracer, tokens: u64, block: &Double) {
    let hidden = block.hidden;
    let states = product(&[tokens, hidden]);
    tracer.linear("block.modulation_second", 1, (hidden, 3 * hidden), true);
    tracer.holding(2 * states, |tracer| {
        tracer.elementwise("block.norm", states, states);
        tracer.linears("block.attention.qkv", 3, tokens, (hidden, hidden), true);
        if block.head_norms {
            head_norms(tracer, states, block.head_width);
        }
        let size = Attention::full(tokens, tokens, block.heads, block.head_width);
        tracer.attention("block.attention_second", &size);
        tracer.linear("block.attention.out", tokens, (hidden, hidden), true);
    });
    tracer.elementwise("block.residual", 2 * states, states);
}

pub(in super::super) fn qwen_image(tracer: &mut Tracer, shape: &QwenImage, tokens: Tokens) {
    let hidden = product(&[shape.heads, shape.head_width]);
    embed(tracer, "time", TIME_CHANNELS, hidden, true);
    tracer.norm(
        "text.norm",
        product(&[tokens.text, shape.text_width]),
        shape.text_width,
    );
    tracer.linear("image", tokens.image, (shape.input_channels, hidden), true);
    tracer.linear("text", tokens.text, (shape.text_width, hidden), true);
    let block = Double {
        hidden,
        heads: shape.heads,
        head_width: shape.head_width,
        feed_forward: 4 * hidden,
        gated: false,
        bias: true,
        head_norms: true,
        modulated: true,
    };
    tracer.repeat(shape.blocks, |tracer| {
        double(tracer, pair(tokens, true), &block);
    });
    let outputs = product(&[shape.patch, shape.patch, shape.output_channels]);
    last(tracer, tokens.image, hidden, outputs, true);
}
