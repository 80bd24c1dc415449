//! Transformers that denoise: tokens of the image and of the text, modulated by time.

mod image;
mod video;

pub(super) use image::{flux, qwen_image, stable_diffusion_3};
pub(super) use video::{hunyuan_video, wan};

use super::tracer::{Attention, Tracer, product};

/// Channels of the sinusoids of time, where a class fixes them: `Timesteps(256)` of diffusers.
const TIME_CHANNELS: u64 = 256;

#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens {
    pub(super) image: u64,
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
