//! Autoencoders of video: causal convolutions over space and time, one latent frame after the other.
//!
//! The first frame stands for itself; each further latent frame stands for as many frames as the
//! halvings of time make of one.

use super::{
    grid::Grid,
    tracer::{Attention, Kernel, Tracer, product},
};
use gpuwise_domain::network::{OperationKind, VideoAutoencoder};

/// Frames that a convolution over time alone sees.
const TIME_KERNEL: u64 = 3;
/// Frames that it keeps of the past: `CACHE_T` of diffusers.
const CACHED_FRAMES: u64 = 2;

/// Maps of features at one level: so many frames of this grid.
#[derive(Debug, Clone, Copy)]
struct Volume {
    grid: Grid,
    /// Latent frames behind the first.
    more: u64,
    /// Frames that each of them is here.
    each: u64,
}

impl Volume {
    fn positions(self) -> u64 {
        product(&[self.frames(), self.grid.positions()])
    }

    fn frames(self) -> u64 {
        product(&[self.more, self.each]).saturating_add(1)
    }

    /// Positions of all frames but the first.
    fn later(self) -> u64 {
        product(&[self.more, self.each, self.grid.positions()])
    }

    /// Positions that are in memory at once: the frames of one latent.
    fn at_once(self) -> u64 {
        let frames = if self.more > 0 { self.each } else { 1 };
        product(&[frames, self.grid.positions()])
    }
}

/// A walk through one latent frame after the other: all of the work, the memory of one.
struct Frames<'a> {
    tracer: &'a mut Tracer,
    /// Frames that convolutions keep for the next latent frame.
    kept: u64,
}

impl Frames<'_> {
    /// The chunks' work is that of all positions; their memory that of one.
    fn convolution(&mut self, name: &str, kernel: &Kernel, from: Volume, to: Volume) {
        let all = (from.positions(), to.positions());
        let piece = (from.at_once(), to.at_once());
        self.tracer.chunked(name, kernel, all, piece);
    }

    /// A convolution of three frames, which keeps the last two of its input for the next latent
    /// frame, and copies them in front of it, and then zeros around it.
    fn causal(&mut self, name: &str, channels: (u64, u64), volume: Volume) {
        let (inputs, outputs) = channels;
        let frame = product(&[volume.grid.positions(), inputs]);
        let chunk = product(&[volume.at_once(), inputs]);
        let longer = chunk.saturating_add(CACHED_FRAMES * frame);
        self.kept = self.kept.saturating_add((CACHED_FRAMES * frame).min(chunk));
        let kernel = Kernel::cubic(inputs, outputs, 3);
        self.tracer
            .holding(chunk, |tracer| tracer.touch(2 * longer));
        self.convolution(name, &kernel, volume, volume);
    }

    /// Puts what is kept onto the peak: it lives all the time.
    fn end(self) {
        self.tracer.lift(self.kept);
    }

    fn norm(&mut self, volume: Volume, channels: u64) {
        let elements = product(&[volume.positions(), channels]);
        let at_once = product(&[volume.at_once(), channels]);
        self.tracer
            .chunked_norm("norm", elements, at_once, channels);
    }

    fn residual(&mut self, name: &str, volume: Volume, inputs: u64, outputs: u64) {
        let input = product(&[volume.at_once(), inputs]);
        self.tracer.hold(input);
        self.norm(volume, inputs);
        self.causal(name, (inputs, outputs), volume);
        self.norm(volume, outputs);
        self.causal(name, (outputs, outputs), volume);
        if inputs != outputs {
            let kernel = Kernel::cubic(inputs, outputs, 1);
            self.convolution("shortcut", &kernel, volume, volume);
        }
        self.tracer.release(input);
        let output = product(&[volume.positions(), outputs]);
        let at_once = product(&[volume.at_once(), outputs]);
        self.tracer.chunked_elementwise("residual", output, at_once);
    }

    /// Residual blocks of a level, whose input stays until the last of them.
    fn level(&mut self, name: &str, volume: Volume, channels: (u64, u64), blocks: u64) {
        let (inputs, outputs) = channels;
        let input = product(&[volume.at_once(), inputs]);
        for block in 0..blocks {
            if block == 0 {
                self.residual(name, volume, inputs, outputs);
            } else {
                self.tracer.hold(input);
                self.residual(name, volume, outputs, outputs);
                self.tracer.release(input);
            }
        }
    }

    /// Residual block, attention of one head within each frame, residual block.
    fn middle(&mut self, volume: Volume, channels: u64) {
        self.residual("middle", volume, channels, channels);
        let positions = volume.grid.positions();
        self.norm(volume, channels);
        let wide = Kernel::square(channels, 3 * channels, 1);
        self.convolution("attention.qkv", &wide, volume, volume);
        let size = Attention::full(positions, positions, 1, channels);
        self.tracer.repeat(volume.frames(), |tracer| {
            tracer.attention("attention", &size);
        });
        let out = Kernel::square(channels, channels, 1);
        self.convolution("attention.out", &out, volume, volume);
        self.residual("middle", volume, channels, channels);
    }
}

/// A convolution over time alone.
fn over_time(inputs: u64, outputs: u64) -> Kernel {
    Kernel {
        elements: TIME_KERNEL,
        kind: OperationKind::Convolution3d,
        ..Kernel::square(inputs, outputs, 1)
    }
}

pub(super) fn decoder(tracer: &mut Tracer, shape: &VideoAutoencoder, latents: Grid, frames: u64) {
    let mut volume = Volume {
        grid: latents,
        more: frames.saturating_sub(1),
        each: 1,
    };
    let width = |level: usize| {
        let multiplier = shape.multipliers.get(level).copied().unwrap_or(1);
        product(&[shape.base, multiplier])
    };
    let levels = shape.multipliers.len();
    let mut walk = Frames { tracer, kept: 0 };
    let latent = shape.latent_channels;
    walk.convolution(
        "dequantize",
        &Kernel::cubic(latent, latent, 1),
        volume,
        volume,
    );
    let mut channels = width(levels.saturating_sub(1));
    walk.causal("in", (latent, channels), volume);
    walk.middle(volume, channels);
    for level in (0..levels).rev() {
        let outputs = width(level);
        walk.level("up", volume, (channels, outputs), shape.blocks + 1);
        channels = outputs;
        let Some(step) = level.checked_sub(1) else {
            break;
        };
        if shape.halve_time.get(step).copied().unwrap_or(false) {
            // The first frame is not doubled.
            let kernel = over_time(channels, 2 * channels);
            walk.tracer.chunked(
                "double_time",
                &kernel,
                (volume.later(), volume.later()),
                (volume.at_once(), volume.at_once()),
            );
            volume.each *= 2;
        }
        volume.grid = volume.grid.doubled();
        let kernel = Kernel::square(channels, channels / 2, 3);
        walk.convolution("double", &kernel, volume, volume);
        channels /= 2;
    }
    walk.norm(volume, channels);
    walk.causal("out", (channels, shape.channels), volume);
    walk.end();
}

pub(super) fn encoder(tracer: &mut Tracer, shape: &VideoAutoencoder, pixels: Grid, frames: u64) {
    let mut volume = Volume {
        grid: pixels,
        more: frames.saturating_sub(1),
        each: shape.time_factor(),
    };
    let mut walk = Frames { tracer, kept: 0 };
    let mut channels = shape.base;
    walk.causal("in", (shape.channels, channels), volume);
    for (level, &multiplier) in shape.multipliers.iter().enumerate() {
        let outputs = product(&[shape.base, multiplier]);
        walk.level("down", volume, (channels, outputs), shape.blocks);
        channels = outputs;
        let Some(&halves_time) = shape.halve_time.get(level) else {
            continue;
        };
        let from = volume;
        volume.grid = volume.grid.divided(2);
        walk.convolution(
            "halve",
            &Kernel::square(channels, channels, 3),
            from,
            volume,
        );
        if halves_time {
            let from = volume;
            volume.each /= 2;
            let kernel = over_time(channels, channels);
            walk.tracer.chunked(
                "halve_time",
                &kernel,
                (from.later(), volume.later()),
                (from.at_once(), volume.at_once()),
            );
        }
    }
    walk.middle(volume, channels);
    walk.norm(volume, channels);
    let moments = 2 * shape.latent_channels;
    walk.causal("out", (channels, moments), volume);
    walk.convolution(
        "quantize",
        &Kernel::cubic(moments, moments, 1),
        volume,
        volume,
    );
    walk.end();
}
