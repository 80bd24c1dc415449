//! Denoisers of video: `HunyuanVideo` and Wan.

use super::{
    super::tracer::{Attention, Kernel, Tracer, product},
    Double, TIME_CHANNELS, Tokens, double, embed, feed_forward, last, pair, single,
};
use gpuwise_domain::network::{HunyuanVideo, Wan};

/// A convolution over patches of latents in three dimensions.
fn patches(tracer: &mut Tracer, patch: [u64; 3], channels: (u64, u64), tokens: u64) -> u64 {
    let volume = product(&patch);
    let kernel = Kernel {
        elements: volume,
        ..Kernel::cubic(channels.0, channels.1, 1)
    };
    tracer.convolution("patches", &kernel, product(&[tokens, volume]), tokens);
    volume
}

/// `HunyuanVideo`.
pub(in super::super) fn hunyuan_video(tracer: &mut Tracer, shape: &HunyuanVideo, tokens: Tokens) {
    let hidden = product(&[shape.heads, shape.head_width]);
    let volume = patches(
        tracer,
        shape.patch,
        (shape.input_channels, hidden),
        tokens.image,
    );
    let block = Double {
        hidden,
        heads: shape.heads,
        head_width: shape.head_width,
        feed_forward: shape.feed_forward,
        gated: false,
        bias: true,
        head_norms: true,
        modulated: true,
    };
    embed(tracer, "refiner.time", TIME_CHANNELS, hidden, true);
    embed(
        tracer,
        "refiner.pooled_text",
        shape.text_width,
        hidden,
        true,
    );
    tracer.linear(
        "refiner.text",
        tokens.text,
        (shape.text_width, hidden),
        true,
    );
    tracer.repeat(shape.refiner_blocks, |tracer| {
        refine(tracer, tokens.text, &block);
    });
    embed(tracer, "time", TIME_CHANNELS, hidden, true);
    embed(tracer, "pooled_text", shape.pooled_width, hidden, true);
    if shape.guidance {
        embed(tracer, "guidance", TIME_CHANNELS, hidden, true);
    }
    tracer.repeat(shape.double_blocks, |tracer| {
        double(tracer, pair(tokens, true), &block);
    });
    let both = tokens.image.saturating_add(tokens.text);
    tracer.repeat(shape.single_blocks, |tracer| single(tracer, both, &block));
    last(
        tracer,
        tokens.image,
        hidden,
        product(&[volume, shape.output_channels]),
        true,
    );
}

/// A block over text alone.
fn refine(tracer: &mut Tracer, tokens: u64, block: &Double) {
    let hidden = block.hidden;
    let states = product(&[tokens, hidden]);
    tracer.linear("refiner.modulation", 1, (hidden, 2 * hidden), true);
    tracer.holding(states, |tracer| {
        tracer.norm("refiner.norm", states, 2 * hidden);
        tracer.linears("refiner.qkv", 3, tokens, (hidden, hidden), true);
        let size = Attention::full(tokens, tokens, block.heads, block.head_width);
        tracer.attention("refiner.attention", &size);
        tracer.linear("refiner.attention.out", tokens, (hidden, hidden), true);
        tracer.norm("refiner.norm", states, 2 * hidden);
        feed_forward(tracer, tokens, block);
    });
    tracer.elementwise("refiner.residual", 4 * states, 2 * states);
}

pub(in super::super) fn wan(tracer: &mut Tracer, shape: &Wan, tokens: Tokens) {
    let hidden = product(&[shape.heads, shape.head_width]);
    let volume = patches(
        tracer,
        shape.patch,
        (shape.input_channels, hidden),
        tokens.image,
    );
    embed(tracer, "time", shape.time_channels, hidden, true);
    tracer.linear("time.modulation", 1, (hidden, 6 * hidden), true);
    tracer.linear("text", tokens.text, (shape.text_width, hidden), true);
    tracer.linear("text", tokens.text, (hidden, hidden), true);
    tracer.repeat(shape.blocks, |tracer| wan_block(tracer, shape, tokens));
    tracer.parameters(2 * hidden);
    let states = product(&[tokens.image, hidden]);
    tracer.elementwise("out.norm", states, states);
    let outputs = product(&[volume, shape.output_channels]);
    tracer.linear("out", tokens.image, (hidden, outputs), true);
}

fn wan_block(tracer: &mut Tracer, shape: &Wan, tokens: Tokens) {
    let hidden = product(&[shape.heads, shape.head_width]);
    let square = (hidden, hidden);
    let states = product(&[tokens.image, hidden]);
    // Shifts, scales and gates that are added to those of time.
    tracer.parameters(6 * hidden);
    let attend = |tracer: &mut Tracer, name: &str, keys: u64| {
        tracer.linear("block.query", tokens.image, square, true);
        tracer.linears("block.key_value", 2, keys, square, true);
        tracer.norm("block.query_norm", states, hidden);
        tracer.norm("block.key_norm", product(&[keys, hidden]), hidden);
        let size = Attention::full(tokens.image, keys, shape.heads, shape.head_width);
        tracer.attention(name, &size);
        tracer.linear("block.attention.out", tokens.image, square, true);
    };
    tracer.holding(states, |tracer| {
        tracer.elementwise("block.norm", states, states);
        attend(tracer, "block.attention", tokens.image);
    });
    tracer.elementwise("block.residual", 2 * states, states);
    tracer.holding(states, |tracer| {
        let norm = if shape.cross_norm { 2 * hidden } else { 0 };
        tracer.norm("block.cross_norm", states, norm);
        attend(tracer, "block.cross_attention", tokens.text);
    });
    tracer.elementwise("block.residual", 2 * states, states);
    // The block's input, what attention made of it, and the norm of that.
    tracer.holding(3 * states, |tracer| {
        tracer.elementwise("block.norm", states, states);
        let inner = product(&[tokens.image, shape.feed_forward]);
        tracer.linear(
            "block.mlp.up",
            tokens.image,
            (hidden, shape.feed_forward),
            true,
        );
        tracer.elementwise("block.mlp.activation", inner, inner);
        tracer.linear(
            "block.mlp.down",
            tokens.image,
            (shape.feed_forward, hidden),
            true,
        );
    });
    tracer.elementwise("block.residual", 2 * states, states);
}
