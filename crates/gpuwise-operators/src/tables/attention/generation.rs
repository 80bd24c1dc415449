//! Attention of one new token per sequence over what is cached.

use super::{Heads, KvFormat, LAUNCH, held, missed, moved, multiplies_as_cached, replayed};
use crate::{
    OperatorError, Row, Silicon,
    grid::{Axis, Tensors},
    tables::{Case, Ideal, Operator, Point, Weights, Work},
};
use alloc::string::String;
use gpuwise_domain::precision::Compute;

/// log2 of tokens read, of (sequences × key heads) per SM, of the head's width, of queries per key, of
/// the window, of tokens cached, of bytes read over the second-level
/// cache.
const READ: usize = 0;
const LOAD: usize = 1;
const WIDTH: usize = 2;
const GROUP: usize = 3;
const WINDOW: usize = 4;
const CACHED: usize = 5;
const HELD: usize = 6;

const READ_COARSE: Axis = (READ, &[1.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0]);
const LOAD_COARSE: Axis = (LOAD, &[-7.0, -4.0, -2.0, 0.0, 2.0, 5.0]);
const WIDTHS: Axis = (WIDTH, &[6.0, 7.0, 8.0, 9.0]);
const GROUPS: Axis = (GROUP, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
const WINDOWS: Axis = (WINDOW, &[7.0, 10.0, 14.0]);

const TENSORS: Tensors = &[
    &[
        (
            READ,
            &[
                1.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 17.0,
            ],
        ),
        (
            LOAD,
            &[-7.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0],
        ),
    ],
    &[(
        HELD,
        &[
            -17.0, -13.0, -10.0, -8.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5,
            1.0, 2.0, 3.0, 4.0, 6.0, 9.0,
        ],
    )],
    &[WIDTHS, READ_COARSE],
    &[WIDTHS, LOAD_COARSE],
    &[GROUPS, READ_COARSE],
    &[GROUPS, LOAD_COARSE],
    &[WINDOWS, (CACHED, &[7.0, 9.0, 11.0, 14.0, 17.0])],
    &[WINDOWS, LOAD_COARSE],
    &[WIDTHS, GROUPS],
];

/// Attention of one token per sequence.
pub const GENERATION: Operator = Operator {
    name: "attention_generation",
    shape: &[
        "q_heads", "kv_heads", "head_dim", "window", "batch", "kv_len",
    ],
    grids: &[TENSORS],
    read,
    like,
    hosts: 1.0,
    smooth: 0.1,
};

/// The work of sequences of one new token each over a length, the new token included.
pub fn work(
    silicon: &Silicon,
    weights: Weights,
    cache: KvFormat,
    as_cached: bool,
    heads: &Heads,
    [sequences, length]: [f64; 2],
) -> Work {
    let seen = length.min(heads.limit());
    let multiplied = match cache {
        KvFormat::Fp8 if as_cached => Compute::Fp8,
        _ => Compute::Half,
    };
    let flop = 4.0 * sequences * heads.queries * heads.width * seen;
    let stored = sequences * seen * heads.width * 2.0 * heads.keys * cache.bytes();
    let rows = sequences * 4.0 * heads.queries * heads.width;
    Work {
        ideal: Ideal::Seconds(
            flop / silicon.peak(Compute::Half)
                + moved(stored, weights, silicon)
                + replayed(rows, silicon)
                + LAUNCH * silicon.launch(),
        ),
        compute: flop / silicon.peak(multiplied),
        memory: missed(stored, weights, silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(seen),
            libm::log2(sequences * heads.keys / silicon.units),
            libm::log2(heads.width),
            libm::log2(heads.queries / heads.keys),
            heads.window_place(length),
            libm::log2(length),
            held(stored, silicon),
        ]),
    }
}

/// Whether an engine multiplies in the cache's format on this GPU.
pub fn as_cached(engine: &str, silicon: &Silicon) -> bool {
    multiplies_as_cached(engine, silicon)
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let cache = KvFormat::read(row, "kv_dtype")?;
    let heads = Heads::read(row)?;
    let as_cached = as_cached(row.text("engine")?, silicon);
    let size = [row.size("batch")?, row.size("kv_len")?];
    Ok(Case {
        format: String::from(cache.label()),
        work: work(silicon, Weights::Rotated, cache, as_cached, &heads, size),
        model: String::new(),
        outside: None,
    })
}

fn like(format: &str) -> &'static [&'static str] {
    match format {
        "fp8" => &["bfloat16"],
        _ => &["fp8"],
    }
}
