//! Autoencoders of images: levels of residual blocks, and attention at the bottom.

use super::{
    grid::Grid,
    tracer::{Attention, Kernel, Tracer, product},
};
use gpuwise_domain::network::Autoencoder;

/// Groups of channels do not matter for sizes: a norm has a scale and a shift for each channel.
fn group_norm(tracer: &mut Tracer, name: &str, positions: u64, channels: u64) {
    let elements = product(&[positions, channels]);
    tracer.norm(name, elements, 2 * channels);
    tracer.elementwise("activation", elements, elements);
}

/// A residual block; the embedding of time is added where it has a width.
pub(super) fn residual(
    tracer: &mut Tracer,
    name: &str,
    grid: Grid,
    channels: (u64, u64),
    time: Option<u64>,
) {
    let (inputs, outputs) = channels;
    let positions = grid.positions();
    let input = product(&[positions, inputs]);
    tracer.holding(input, |tracer| {
        group_norm(tracer, "norm", positions, inputs);
        tracer.convolution(
            name,
            &Kernel::square(inputs, outputs, 3),
            positions,
            positions,
        );
        if let Some(width) = time {
            tracer.linear("time_projection", 1, (width, outputs), true);
        }
        group_norm(tracer, "norm", positions, outputs);
        tracer.convolution(
            name,
            &Kernel::square(outputs, outputs, 3),
            positions,
            positions,
        );
    });
    let output = product(&[positions, outputs]);
    if inputs != outputs {
        tracer.holding(output, |tracer| {
            let kernel = Kernel::square(inputs, outputs, 1);
            tracer.convolution("shortcut", &kernel, positions, positions);
        });
    }
    // The sum, and what it is scaled to.
    tracer.holding(output, |tracer| {
        tracer.elementwise("residual", 2 * output, output);
    });
}

/// Residual block, attention of one head over all positions, residual block.
fn middle(tracer: &mut Tracer, shape: &Autoencoder, grid: Grid, channels: u64) {
    let positions = grid.positions();
    let states = product(&[positions, channels]);
    residual(tracer, "middle", grid, (channels, channels), None);
    if shape.middle_attention {
        let square = (channels, channels);
        tracer.holding(states, |tracer| {
            tracer.norm("attention.norm", states, 2 * channels);
            tracer.linears("attention.qkv", 3, positions, square, true);
            let size = Attention::full(positions, positions, 1, channels);
            tracer.attention("attention", &size);
            tracer.linear("attention.out", positions, square, true);
        });
        tracer.elementwise("residual", 2 * states, states);
    }
    residual(tracer, "middle", grid, (channels, channels), None);
}

fn last(tracer: &mut Tracer, positions: u64, channels: (u64, u64)) {
    group_norm(tracer, "norm", positions, channels.0);
    let kernel = Kernel::square(channels.0, channels.1, 3);
    tracer.convolution("out", &kernel, positions, positions);
}

/// Residual blocks of a level, whose input stays until the last of them.
fn level_of(tracer: &mut Tracer, name: &str, grid: Grid, channels: (u64, u64), blocks: u64) {
    let (inputs, width) = channels;
    let input = product(&[grid.positions(), inputs]);
    for block in 0..blocks {
        if block == 0 {
            residual(tracer, name, grid, (inputs, width), None);
        } else {
            tracer.holding(input, |tracer| {
                residual(tracer, name, grid, (width, width), None);
            });
        }
    }
}

/// Pixels to latents, for an image of this grid.
pub(super) fn encoder(tracer: &mut Tracer, shape: &Autoencoder, pixels: Grid) {
    let mut grid = pixels;
    let mut channels = shape.levels.first().copied().unwrap_or(1);
    let kernel = Kernel::square(shape.input_channels, channels, 3);
    tracer.convolution("in", &kernel, grid.positions(), grid.positions());
    for (level, &width) in shape.levels.iter().enumerate() {
        level_of(tracer, "down", grid, (channels, width), shape.blocks);
        channels = width;
        if level + 1 < shape.levels.len() {
            let smaller = grid.halved();
            let kernel = Kernel::square(width, width, 3);
            tracer.convolution("halve", &kernel, grid.positions(), smaller.positions());
            grid = smaller;
        }
    }
    middle(tracer, shape, grid, channels);
    let moments = 2 * shape.latent_channels;
    let positions = grid.positions();
    last(tracer, positions, (channels, moments));
    if shape.quantize {
        let kernel = Kernel::square(moments, moments, 1);
        tracer.convolution("quantize", &kernel, positions, positions);
    }
}

pub(super) fn decoder(tracer: &mut Tracer, shape: &Autoencoder, latents: Grid) {
    let mut grid = latents;
    let mut channels = shape.levels.last().copied().unwrap_or(1);
    let latent = shape.latent_channels;
    let positions = grid.positions();
    if shape.dequantize {
        let kernel = Kernel::square(latent, latent, 1);
        tracer.convolution("dequantize", &kernel, positions, positions);
    }
    let kernel = Kernel::square(latent, channels, 3);
    tracer.convolution("in", &kernel, positions, positions);
    middle(tracer, shape, grid, channels);
    for (level, &width) in shape.levels.iter().enumerate().rev() {
        level_of(tracer, "up", grid, (channels, width), shape.blocks + 1);
        channels = width;
        if level > 0 {
            let larger = grid.doubled();
            double(tracer, grid, larger, width);
            grid = larger;
        }
    }
    last(tracer, grid.positions(), (channels, shape.output_channels));
}

/// Each position four times, and a convolution.
pub(super) fn double(tracer: &mut Tracer, grid: Grid, larger: Grid, channels: u64) {
    let (from, to) = (grid.positions(), larger.positions());
    tracer.elementwise(
        "double",
        product(&[from, channels]),
        product(&[to, channels]),
    );
    tracer.convolution("double", &Kernel::square(channels, channels, 3), to, to);
}
