//! Products that absorb the up-projections of latent attention: a batched GEMM, one matrix of
//! 128 × 512 per head, before (`pre`) and after (`post`) the kernel.

use super::{
    LAUNCH,
    latent::{LATENT, VALUE},
    replayed, uncached,
};
use crate::{
    OperatorError, Row, Silicon,
    grid::Tensors,
    tables::{Case, Ideal, Operator, Point, Work, gemm::GemmFormat},
};
use alloc::{
    format,
    string::{String, ToString as _},
};

/// log2 of tokens and of heads.
const TENSORS: Tensors = &[&[
    (
        0,
        &[
            0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 15.0,
        ],
    ),
    (1, &[0.0, 2.0, 4.0, 5.0, 6.0, 7.0]),
]];

pub const LATENT_PRODUCT: Operator = Operator {
    name: "mla_bmm",
    shape: &["op", "heads", "tokens"],
    grids: &[TENSORS],
    read,
    like,
    hosts: 1.0,
    smooth: 0.1,
};

/// The work of tokens through the matrices of heads.
pub fn work(silicon: &Silicon, format: GemmFormat, [heads, tokens]: [f64; 2]) -> Work {
    let compute = 2.0 * tokens * heads * VALUE * LATENT / silicon.peak(format.compute());
    let weights = heads * VALUE * LATENT * format.weight_bytes();
    let bytes = weights + 2.0 * tokens * heads * (VALUE + LATENT);
    Work {
        ideal: Ideal::Seconds(compute + replayed(bytes, silicon) + LAUNCH * silicon.launch()),
        compute,
        memory: uncached(bytes, silicon) / silicon.bandwidth,
        at: Point::new([libm::log2(tokens), libm::log2(heads)]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let label = row.text("dtype")?;
    let format = GemmFormat::of(label).ok_or_else(|| OperatorError::Field {
        column: "dtype",
        value: label.to_string(),
        wanted: "bfloat16 or fp8",
    })?;
    let size = [row.size("heads")?, row.size("tokens")?];
    Ok(Case {
        format: format!("{}/{}", row.text("op")?, format.label()),
        work: work(silicon, format, size),
        model: String::new(),
        outside: None,
    })
}

fn like(format: &str) -> &'static [&'static str] {
    if format.starts_with("pre") {
        &["pre/bfloat16", "pre/fp8"]
    } else {
        &["post/bfloat16", "post/fp8"]
    }
}
