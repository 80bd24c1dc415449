//! Transformers that denoise: tokens of the image and of the text, modulated by time.

use super::tracer::{Attention, Kernel, Tracer, product};
use gpuwise_domain::network::{FluxDenoiser, HunyuanVideo, QwenImage, StableDiffusion3, Wan};

/// Channels of the sinusoids of time, where a class fixes them: `Timesteps(256)` of diffusers.
const TIME_CHANNELS: u64 = 256;

/// Tokens that a denoiser works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens {
    /// Patches of latents.
    pub(super) image: u64,
    /// Tokens of text.
    pub(super) text: u64,
}

/// One of the streams that attend together.
#[derive(Debug, Clone, Copy)]
struct Stream {
    name: &'static str,
    tokens: u64,
    /// Whether it goes on behind the attention.
    goes_on: bool,
}

/// A block of two streams.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether a part is there, independently of the others"
)]
struct Double {
    hidden: u64,
    heads: u64,
    head_width: u64,
    feed_forward: u64,
    gated: bool,
    bias: bool,
    /// Whether queries and keys have norms with parameters.
    head_norms: bool,
    /// Whether the block makes its modulation itself.
    modulated: bool,
}

/// Two dense layers with an activation in between, over one vector.
fn embed(tracer: &mut Tracer, name: &str, inputs: u64, hidden: u64, bias: bool) {
    tracer.linear(name, 1, (inputs, hidden), bias);
    tracer.linear(name, 1, (hidden, hidden), bias);
}

fn feed_forward(tracer: &mut Tracer, tokens: u64, block: &Double) {
    let Double { hidden, bias, .. } = *block;
    let inner = product(&[tokens, block.feed_forward]);
    let doubled = if block.gated { 2 } else { 1 };
    let up = (hidden, doubled * block.feed_forward);
    tracer.linear("block.mlp.up", tokens, up, bias);
    tracer.elementwise("block.mlp.activation", doubled.saturating_mul(inner), inner);
    tracer.linear("block.mlp.down", tokens, (block.feed_forward, hidden), bias);
}

/// Norms of queries and keys, over so many elements each, with so many parameters each.
fn head_norms(tracer: &mut Tracer, elements: u64, parameters: u64) {
    tracer.repeat(2, |tracer| {
        tracer.norm("block.attention.head_norm", elements, parameters);
    });
}

/// Streams that attend together, each with weights of its own.
fn double(tracer: &mut Tracer, streams: [Stream; 2], block: &Double) {
    let Double { hidden, bias, .. } = *block;
    let inner = product(&[block.heads, block.head_width]);
    let tokens = streams.iter().map(|stream| stream.tokens).sum();
    let all = product(&[tokens, hidden]);
    tracer.holding(all, |tracer| {
        for stream in streams {
            let states = product(&[stream.tokens, hidden]);
            if block.modulated {
                let parts = if stream.goes_on { 6 } else { 2 };
                let name = if stream.name == "image" {
                    "block.modulation"
                } else {
                    "block.modulation_text"
                };
                tracer.linear(name, 1, (hidden, parts * hidden), true);
            }
            tracer.elementwise("block.norm", states, states);
            tracer.linears(
                "block.attention.qkv",
                3,
                stream.tokens,
                (hidden, inner),
                bias,
            );
            if block.head_norms {
                let elements = product(&[stream.tokens, inner]);
                head_norms(tracer, elements, block.head_width);
            }
        }
        let size = Attention::full(tokens, tokens, block.heads, block.head_width);
        tracer.attention("block.attention", &size);
        for stream in streams.iter().filter(|stream| stream.goes_on) {
            tracer.linear("block.attention.out", stream.tokens, (inner, hidden), bias);
        }
    });
    tracer.elementwise("block.residual", 2 * all, all);
    // The block's inputs, their sums with attention, what it put out, and norms.
    tracer.holding(5 * all, |tracer| {
        for stream in streams.iter().filter(|stream| stream.goes_on) {
            let states = product(&[stream.tokens, hidden]);
            tracer.elementwise("block.norm", states, states);
            feed_forward(tracer, stream.tokens, block);
            tracer.elementwise("block.residual", 2 * states, states);
        }
    });
}

/// Image and text as one stream: attention and feed-forward side by side.
fn single(tracer: &mut Tracer, tokens: u64, block: &Double) {
    let Double { hidden, bias, .. } = *block;
    let inner = product(&[block.heads, block.head_width]);
    let states = product(&[tokens, hidden]);
    // The block's input twice: as two streams and as one.
    tracer.holding(2 * states, |tracer| {
        if block.modulated {
            tracer.linear("single.modulation", 1, (hidden, 3 * hidden), true);
        }
        tracer.elementwise("single.norm", states, states);
        // One matmul for all, of which everything behind reads a part, or two.
        let wide = if block.gated {
            let wide = 3 * inner + 2 * block.feed_forward;
            tracer.linear("single.qkv_mlp", tokens, (hidden, wide), bias);
            product(&[tokens, wide])
        } else {
            tracer.linear("single.mlp.up", tokens, (hidden, block.feed_forward), bias);
            tracer.linears("single.qkv", 3, tokens, (hidden, inner), bias);
            0
        };
        tracer.holding(wide, |tracer| single_sides(tracer, tokens, block));
        tracer.elementwise("single.residual", 2 * states, states);
    });
}

/// Attention, activation, and the matmul of both.
fn single_sides(tracer: &mut Tracer, tokens: u64, block: &Double) {
    let Double { hidden, bias, .. } = *block;
    let inner = product(&[block.heads, block.head_width]);
    let states = product(&[tokens, hidden]);
    let width = product(&[tokens, block.feed_forward]);
    let (doubled, held) = if block.gated { (2, 0) } else { (1, width) };
    tracer.holding(held, |tracer| {
        head_norms(tracer, product(&[tokens, inner]), block.head_width);
        let size = Attention::full(tokens, tokens, block.heads, block.head_width);
        tracer.attention("single.attention", &size);
    });
    tracer.elementwise("single.mlp.activation", doubled * width, width);
    // They are put side by side before they are multiplied.
    let side_by_side = product(&[tokens, inner]).saturating_add(width);
    tracer.elementwise("single.side_by_side", side_by_side, side_by_side);
    let down = (inner + block.feed_forward, hidden);
    tracer.holding(side_by_side.saturating_add(2 * states), |tracer| {
        tracer.linear("single.out", tokens, down, bias);
    });
}

/// The last norm, modulated, and the prediction.
fn last(tracer: &mut Tracer, tokens: u64, hidden: u64, outputs: u64, bias: bool) {
    let states = product(&[tokens, hidden]);
    tracer.linear("out.modulation", 1, (hidden, 2 * hidden), bias);
    tracer.elementwise("out.norm", states, states);
    tracer.linear("out", tokens, (hidden, outputs), bias);
}

fn pair(tokens: Tokens, text_goes_on: bool) -> [Stream; 2] {
    [
        Stream {
            name: "image",
            tokens: tokens.image,
            goes_on: true,
        },
        Stream {
            name: "text",
            tokens: tokens.text,
            goes_on: text_goes_on,
        },
    ]
}

/// FLUX.1 and FLUX.2.
pub(super) fn flux(tracer: &mut Tracer, shape: &FluxDenoiser, tokens: Tokens) {
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
pub(super) fn stable_diffusion_3(
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

/// Qwen-Image.
pub(super) fn qwen_image(tracer: &mut Tracer, shape: &QwenImage, tokens: Tokens) {
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
pub(super) fn hunyuan_video(tracer: &mut Tracer, shape: &HunyuanVideo, tokens: Tokens) {
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

/// Wan.
pub(super) fn wan(tracer: &mut Tracer, shape: &Wan, tokens: Tokens) {
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
