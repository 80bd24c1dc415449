//! Networks of convolutions: `ResNet` and `ResNeXt`, the detector `RetinaNet`, the U-net over volumes.

use super::{
    grid::Grid,
    tracer::{Kernel, Tracer, product},
};
use alloc::vec::Vec;
use gpuwise_domain::network::{ResidualNetwork, Retinanet, VolumeUnet};

/// A convolution without bias, its norm with a scale and a shift a channel, and an activation.
fn unit(tracer: &mut Tracer, name: &str, kernel: Kernel, from: Grid, to: Grid) {
    let kernel = kernel.without_bias();
    tracer.convolution(name, &kernel, from.positions(), to.positions());
    let elements = product(&[to.positions(), kernel.outputs]);
    tracer.norm("norm", elements, 2 * kernel.outputs);
    tracer.elementwise("activation", elements, elements);
}

/// Positions and channels behind each stage.
type Maps = Vec<(Grid, u64)>;

/// The stages of a residual network over an image of this grid.
pub(super) fn stages(tracer: &mut Tracer, shape: &ResidualNetwork, image: Grid) -> Maps {
    let mut grid = image.halved();
    unit(
        tracer,
        "stem",
        Kernel::square(shape.channels, shape.stem, 7),
        image,
        grid,
    );
    let pooled = grid.halved();
    let elements = |grid: Grid| product(&[grid.positions(), shape.stem]);
    tracer.elementwise("pool", elements(grid), elements(pooled));
    grid = pooled;
    let mut channels = shape.stem;
    let mut maps = Maps::new();
    for (stage, &(blocks, width)) in shape.stages.iter().enumerate() {
        for index in 0..blocks {
            let halves = index == 0 && (stage > 0 || shape.halve_first);
            grid = block(tracer, shape, grid, (channels, width), halves);
            channels = width;
        }
        maps.push((grid, channels));
    }
    maps
}

fn block(
    tracer: &mut Tracer,
    shape: &ResidualNetwork,
    grid: Grid,
    channels: (u64, u64),
    halves: bool,
) -> Grid {
    let (inputs, outputs) = channels;
    let to = if halves { grid.halved() } else { grid };
    let input = product(&[grid.positions(), inputs]);
    tracer.holding(input, |tracer| {
        if shape.bottleneck {
            let inner = outputs / shape.reduction.max(1);
            let early = if shape.halve_early { to } else { grid };
            let middle = Kernel::square(inner, inner, 3).grouped(shape.groups);
            unit(
                tracer,
                "block.narrow",
                Kernel::square(inputs, inner, 1),
                grid,
                early,
            );
            unit(tracer, "block.convolution", middle, early, to);
            unit(
                tracer,
                "block.widen",
                Kernel::square(inner, outputs, 1),
                to,
                to,
            );
        } else {
            unit(
                tracer,
                "block.convolution",
                Kernel::square(inputs, outputs, 3),
                grid,
                to,
            );
            unit(
                tracer,
                "block.convolution",
                Kernel::square(outputs, outputs, 3),
                to,
                to,
            );
        }
    });
    let output = product(&[to.positions(), outputs]);
    if inputs != outputs || halves {
        tracer.holding(output.saturating_add(input), |tracer| {
            let kernel = Kernel::square(inputs, outputs, 1).without_bias();
            tracer.convolution("block.shortcut", &kernel, grid.positions(), to.positions());
            tracer.norm("norm", output, 2 * outputs);
        });
    }
    tracer.elementwise("residual", 2 * output, output);
    to
}

/// A residual network and its scores, over an image of this grid.
pub(super) fn residual(tracer: &mut Tracer, shape: &ResidualNetwork, image: Grid) {
    let maps = stages(tracer, shape, image);
    let Some(&(grid, channels)) = maps.last() else {
        return;
    };
    if shape.classes > 0 {
        tracer.elementwise("pool", product(&[grid.positions(), channels]), channels);
        tracer.linear("head.classes", 1, (channels, shape.classes), true);
    }
}

/// `RetinaNet` over an image of this grid: the last three stages, two coarser levels, two heads.
pub(super) fn retinanet(tracer: &mut Tracer, shape: &Retinanet, image: Grid) {
    let maps = stages(tracer, &shape.backbone, image);
    let width = shape.pyramid;
    let mut levels = Vec::new();
    let mut held = 0;
    for &(grid, channels) in maps.iter().rev().take(3) {
        let positions = grid.positions();
        let elements = product(&[positions, width]);
        tracer.convolution(
            "pyramid.inner",
            &Kernel::square(channels, width, 1),
            positions,
            positions,
        );
        tracer.elementwise("pyramid.sum", 2 * elements, elements);
        tracer.convolution(
            "pyramid.outer",
            &Kernel::square(width, width, 3),
            positions,
            positions,
        );
        levels.push(grid);
        tracer.hold(elements);
        held = u64::saturating_add(held, elements);
    }
    // Two more, each half as wide as the one before, from the coarsest of these.
    if let Some(&coarsest) = levels.first() {
        let (sixth, seventh) = (coarsest.halved(), coarsest.halved().halved());
        let kernel = Kernel::square(width, width, 3);
        tracer.convolution(
            "pyramid.coarser",
            &kernel,
            coarsest.positions(),
            sixth.positions(),
        );
        tracer.convolution(
            "pyramid.coarser",
            &kernel,
            sixth.positions(),
            seventh.positions(),
        );
        levels.extend([sixth, seventh]);
    }
    for (index, &grid) in levels.iter().enumerate() {
        // All levels go through the same weights.
        if index == 0 {
            heads(tracer, shape, grid);
        } else {
            tracer.shared(|tracer| heads(tracer, shape, grid));
        }
    }
    tracer.release(held);
}

fn heads(tracer: &mut Tracer, shape: &Retinanet, grid: Grid) {
    let width = shape.pyramid;
    let positions = grid.positions();
    let elements = product(&[positions, width]);
    for (name, outputs) in [
        ("head.classes", shape.anchors * shape.classes),
        ("head.boxes", shape.anchors * 4),
    ] {
        tracer.repeat(shape.convolutions, |tracer| {
            let kernel = Kernel::square(width, width, 3);
            tracer.convolution("head.convolution", &kernel, positions, positions);
            tracer.elementwise("activation", elements, elements);
        });
        tracer.convolution(
            name,
            &Kernel::square(width, outputs, 3),
            positions,
            positions,
        );
    }
}

/// The U-net over volumes: one window of so many voxels each way.
pub(super) fn volume(tracer: &mut Tracer, shape: &VolumeUnet, window: u64) {
    let cube = |side: u64| product(&[side, side, side]);
    let mut size = window;
    let mut channels = shape.channels;
    let mut kept = Vec::new();
    for (index, &width) in shape.filters.iter().enumerate() {
        let to = if index == 0 { size } else { size.div_ceil(2) };
        pair(tracer, "down", (channels, width), cube(size), cube(to));
        (size, channels) = (to, width);
        let elements = product(&[cube(size), width]);
        tracer.hold(elements);
        kept.push((size, width, elements));
    }
    let bottom = size.div_ceil(2);
    pair(
        tracer,
        "bottom",
        (channels, channels),
        cube(size),
        cube(bottom),
    );
    size = bottom;
    while let Some((larger, width, elements)) = kept.pop() {
        let kernel = Kernel::cubic(channels, width, 2);
        tracer.transposed("up.double", &kernel, cube(size), cube(larger));
        tracer.release(elements);
        pair(tracer, "up", (2 * width, width), cube(larger), cube(larger));
        (size, channels) = (larger, width);
    }
    let kernel = Kernel::cubic(channels, shape.classes, 1);
    tracer.convolution("out", &kernel, cube(size), cube(size));
}

/// Two convolutions with norms, the first from `from` voxels to `to`.
fn pair(tracer: &mut Tracer, name: &str, channels: (u64, u64), from: u64, to: u64) {
    let (inputs, outputs) = channels;
    for (inputs, from) in [(inputs, from), (outputs, to)] {
        let kernel = Kernel::cubic(inputs, outputs, 3).without_bias();
        tracer.convolution(name, &kernel, from, to);
        let elements = product(&[to, outputs]);
        tracer.norm("norm", elements, 2 * outputs);
        tracer.elementwise("activation", elements, elements);
    }
}
