//! The U-net of Stable Diffusion: down, the middle, and up again beside what was kept.

use super::{
    autoencoder::{double, residual},
    grid::Grid,
    tracer::{Attention, Kernel, Tracer, product},
};
use alloc::vec::Vec;
use gpuwise_domain::network::{DiffusionUnet, UnetLevel};

/// The embedding of time is this many times as wide as the outermost level:
/// `time_embed_dim = block_out_channels[0] * 4` of diffusers.
const TIME_WIDTHS: u64 = 4;

/// One map of features that the way up reads again.
#[derive(Debug, Clone, Copy)]
struct Kept {
    grid: Grid,
    channels: u64,
    elements: u64,
}

/// One denoising step over latents of this grid, for a text of so many tokens.
pub(super) fn step(tracer: &mut Tracer, shape: &DiffusionUnet, latents: Grid, text: u64) {
    let first = shape.levels.first().map_or(1, |level| level.channels);
    let time = TIME_WIDTHS * first;
    tracer.linear("time", 1, (first, time), true);
    tracer.linear("time", 1, (time, time), true);
    if shape.added_width > 0 {
        tracer.linear("added", 1, (shape.added_width, time), true);
        tracer.linear("added", 1, (time, time), true);
    }
    let kernel = Kernel::square(shape.input_channels, first, 3);
    tracer.convolution("in", &kernel, latents.positions(), latents.positions());
    let walk = Pass { shape, time, text };
    let mut kept = Vec::new();
    keep(tracer, &mut kept, latents, first);
    let bottom = walk.down(tracer, latents, first, &mut kept);
    walk.middle(tracer, bottom);
    walk.up(tracer, bottom, &mut kept);
    let positions = latents.positions();
    let elements = product(&[positions, first]);
    tracer.norm("norm", elements, 2 * first);
    tracer.elementwise("activation", elements, elements);
    let kernel = Kernel::square(first, shape.output_channels, 3);
    tracer.convolution("out", &kernel, positions, positions);
}

fn keep(tracer: &mut Tracer, kept: &mut Vec<Kept>, grid: Grid, channels: u64) {
    let elements = product(&[grid.positions(), channels]);
    tracer.hold(elements);
    kept.push(Kept {
        grid,
        channels,
        elements,
    });
}

struct Pass<'a> {
    shape: &'a DiffusionUnet,
    time: u64,
    text: u64,
}

impl Pass<'_> {
    fn down(&self, tracer: &mut Tracer, from: Grid, first: u64, kept: &mut Vec<Kept>) -> Grid {
        let mut grid = from;
        let mut channels = first;
        for (index, level) in self.shape.levels.iter().enumerate() {
            for _ in 0..self.shape.blocks {
                let sizes = (channels, level.channels);
                residual(tracer, "down", grid, sizes, Some(self.time));
                channels = level.channels;
                self.transformer(tracer, grid, level, level.down_transformers);
                keep(tracer, kept, grid, channels);
            }
            if index + 1 < self.shape.levels.len() {
                let smaller = grid.halved();
                let kernel = Kernel::square(channels, channels, 3);
                tracer.convolution("halve", &kernel, grid.positions(), smaller.positions());
                grid = smaller;
                keep(tracer, kept, grid, channels);
            }
        }
        grid
    }

    fn middle(&self, tracer: &mut Tracer, grid: Grid) {
        let (Some(blocks), Some(level)) =
            (self.shape.middle_transformers, self.shape.levels.last())
        else {
            return;
        };
        let sizes = (level.channels, level.channels);
        residual(tracer, "middle", grid, sizes, Some(self.time));
        self.transformer(tracer, grid, level, blocks);
        residual(tracer, "middle", grid, sizes, Some(self.time));
    }

    fn up(&self, tracer: &mut Tracer, from: Grid, kept: &mut Vec<Kept>) {
        let mut grid = from;
        let mut channels = self.shape.levels.last().map_or(1, |level| level.channels);
        for (index, level) in self.shape.levels.iter().enumerate().rev() {
            // What the level reads stays until its end, its input too.
            let input = product(&[grid.positions(), channels]);
            let mut read = input;
            tracer.hold(input);
            for _ in 0..=self.shape.blocks {
                let skip = kept.pop().map_or(0, |skip| {
                    read = read.saturating_add(skip.elements);
                    skip.channels
                });
                let sizes = (channels + skip, level.channels);
                residual(tracer, "up", grid, sizes, Some(self.time));
                channels = level.channels;
                self.transformer(tracer, grid, level, level.up_transformers);
            }
            tracer.release(read);
            if index > 0 {
                // To the size that was kept, which is odd where halving rounded.
                let larger = kept.last().map_or(grid, |skip| skip.grid);
                double(tracer, grid, larger, channels);
                grid = larger;
            }
        }
    }

    /// Attention of positions to each other and to the text, between two matmuls; `blocks` of it.
    fn transformer(&self, tracer: &mut Tracer, grid: Grid, level: &UnetLevel, blocks: u64) {
        if blocks == 0 {
            return;
        }
        let channels = level.channels;
        let positions = grid.positions();
        let states = product(&[positions, channels]);
        let around = |tracer: &mut Tracer, name: &str| {
            if self.shape.linear_projection {
                tracer.linear(name, positions, (channels, channels), true);
            } else {
                let kernel = Kernel::square(channels, channels, 1);
                tracer.convolution(name, &kernel, positions, positions);
            }
        };
        tracer.holding(states, |tracer| {
            tracer.norm("transformer.norm", states, 2 * channels);
            around(tracer, "transformer.in");
            tracer.repeat(blocks, |tracer| self.block(tracer, positions, level));
            around(tracer, "transformer.out");
        });
        tracer.elementwise("residual", 2 * states, states);
    }

    fn block(&self, tracer: &mut Tracer, positions: u64, level: &UnetLevel) {
        let channels = level.channels;
        let square = (channels, channels);
        let states = product(&[positions, channels]);
        let width = channels / level.heads.max(1);
        let attend = |tracer: &mut Tracer, name: &str, keys: (u64, u64)| {
            let (count, input) = keys;
            tracer.norm("block.norm", states, 2 * channels);
            tracer.linear("block.query", positions, square, false);
            tracer.linears("block.key_value", 2, count, (input, channels), false);
            let size = Attention::full(positions, count, level.heads, width);
            tracer.attention(name, &size);
            tracer.linear("block.attention.out", positions, square, true);
        };
        tracer.holding(states, |tracer| {
            attend(tracer, "block.attention", (positions, channels));
            tracer.elementwise("block.residual", 2 * states, states);
            let text = (self.text, self.shape.cross_width);
            attend(tracer, "block.cross_attention", text);
            tracer.elementwise("block.residual", 2 * states, states);
            tracer.norm("block.norm", states, 2 * channels);
            // Half of it gates the other half. The output of attention and the norm's stay.
            let inner = states.saturating_mul(4);
            tracer.linear("block.mlp.up", positions, (channels, 8 * channels), true);
            tracer.holding(2 * states + inner, |tracer| {
                tracer.elementwise("block.mlp.activation", 2 * inner, inner);
            });
            tracer.linear("block.mlp.down", positions, (4 * channels, channels), true);
            tracer.elementwise("block.residual", 2 * states, states);
        });
    }
}
