//! Attention of every token over every other: encoders of images.

use super::{LAUNCH, replayed, uncached};
use crate::{
    OperatorError, Row, Silicon,
    grid::{Axis, Tensors},
    tables::{Case, Ideal, Operator, Point, Work},
};
use alloc::string::String;
use gpuwise_domain::precision::Compute;

/// log2 of tokens, of (sequences × heads) per SM, of the head's width.
const TOKENS: usize = 0;
const LOAD: usize = 1;
const WIDTH: usize = 2;

const WIDTHS: Axis = (WIDTH, &[6.0, 6.17, 6.322, 7.0]);

const TENSORS: Tensors = &[
    &[
        (
            TOKENS,
            &[0.0, 4.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0, 16.0],
        ),
        (LOAD, &[-7.0, -5.0, -3.0, -1.0, 0.0, 1.0, 2.0, 4.0]),
    ],
    &[WIDTHS, (TOKENS, &[4.0, 8.0, 10.0, 12.0, 14.0])],
    &[WIDTHS, (LOAD, &[-7.0, -3.0, 0.0, 3.0])],
];

/// Attention that looks both ways.
pub const ENCODER: Operator = Operator {
    name: "attention_encoder",
    shape: &["heads", "head_dim", "batch", "seq_len"],
    grids: &[TENSORS],
    read,
    like: |_| &[],
    hosts: 1.0,
    smooth: 0.1,
};

/// The work of sequences of tokens through heads of a width, in BF16.
pub fn work(silicon: &Silicon, [heads, width]: [f64; 2], [sequences, tokens]: [f64; 2]) -> Work {
    let flop = 4.0 * sequences * heads * width * tokens * tokens;
    let compute = flop / silicon.peak(Compute::Half);
    let bytes = 8.0 * sequences * tokens * heads * width;
    Work {
        ideal: Ideal::Seconds(compute + replayed(bytes, silicon) + LAUNCH * silicon.launch()),
        compute,
        memory: uncached(bytes, silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(tokens),
            libm::log2(sequences * heads / silicon.units),
            libm::log2(width),
        ]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let heads = [row.size("heads")?, row.size("head_dim")?];
    let size = [row.size("batch")?, row.size("seq_len")?];
    Ok(Case {
        format: "bfloat16".into(),
        work: work(silicon, heads, size),
        model: String::new(),
        outside: None,
    })
}
