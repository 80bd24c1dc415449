//! Attention over a latent cache (MLA) of DeepSeek's sizes: the kernel alone. Over prompts it is
//! multi-head attention of 192-wide queries and keys and 128-wide values; over one new token, all
//! heads read one cached row of 512 + 64.

use super::{KvFormat, LAUNCH, context, held, missed, moved, replayed, uncached};
use crate::{
    OperatorError, Row, Silicon,
    grid::{Axis, Tensors},
    tables::{Case, Ideal, Operator, Point, Weights, Work},
};
use alloc::{
    format,
    string::{String, ToString as _},
};
use gpuwise_domain::precision::Compute;

/// Elements of a query and a key, with those that carry the position.
pub(super) const KEY: f64 = 192.0;
/// Elements of a value.
pub(super) const VALUE: f64 = 128.0;
/// Elements of a cached row that values are made of.
pub(super) const LATENT: f64 = 512.0;
/// Elements of a cached row that carry the position.
pub(super) const POSITION: f64 = 64.0;

/// log2 of tokens seen, of tiles of 128 queries per SM over prompts and of sequences per SM over one
/// token, of heads, of bytes read over the second-level cache.
const TOKENS: usize = 0;
const LOAD: usize = 1;
const HEADS: usize = 2;
const HELD: usize = 3;

const HEADS_AXIS: Axis = (HEADS, &[0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);

const TENSORS: Tensors = &[
    &[
        (
            TOKENS,
            &[0.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 15.0, 17.0],
        ),
        (LOAD, &[-7.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 3.0, 6.0]),
    ],
    &[(
        HELD,
        &[
            -17.0, -12.0, -8.0, -6.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0,
        ],
    )],
    &[HEADS_AXIS, (TOKENS, &[1.0, 6.0, 9.0, 12.0, 15.0])],
    &[HEADS_AXIS, (LOAD, &[-7.0, -4.0, -2.0, 0.0, 2.0, 5.0])],
];

/// Latent attention, kernels alone.
pub const LATENT_ATTENTION: Operator = Operator {
    name: "mla",
    shape: &["op", "heads", "batch", "new_tokens", "kv_len"],
    grids: &[TENSORS],
    read,
    like,
    hosts: 1.0,
    smooth: 0.1,
};

/// The work of sequences of tokens, heads on this GPU.
pub fn context_work(
    silicon: &Silicon,
    cache: KvFormat,
    heads: f64,
    [sequences, length]: [f64; 2],
) -> Work {
    let pairs = context::pairs(length, 0.0, f64::INFINITY);
    let flop = 2.0 * (KEY + VALUE) * sequences * heads * pairs;
    let rows = sequences * heads * length * 2.0 * (KEY + VALUE);
    Work {
        ideal: Ideal::Seconds(
            flop / silicon.peak(Compute::Half)
                + replayed(2.0 * rows, silicon)
                + LAUNCH * silicon.launch(),
        ),
        compute: flop / silicon.peak(compute(cache)),
        memory: uncached(rows * cache.bytes(), silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(length),
            libm::log2(sequences * heads * length / silicon.units / 128.0),
            libm::log2(heads),
            held(2.0 * rows, silicon),
        ]),
    }
}

pub(crate) fn row_bytes(cache: KvFormat) -> f64 {
    (LATENT + POSITION) * cache.bytes()
}

/// The work of sequences of one new token each over a length, heads on this GPU.
pub fn generation_work(
    silicon: &Silicon,
    weights: Weights,
    cache: KvFormat,
    heads: f64,
    [sequences, length]: [f64; 2],
) -> Work {
    let flop = 2.0 * (2.0 * LATENT + POSITION) * sequences * heads * length;
    let stored = sequences * length * row_bytes(cache);
    let rows = sequences * heads * 2.0 * (2.0 * LATENT + POSITION);
    Work {
        ideal: Ideal::Seconds(
            flop / silicon.peak(Compute::Half)
                + moved(stored, weights, silicon)
                + replayed(rows, silicon)
                + LAUNCH * silicon.launch(),
        ),
        compute: flop / silicon.peak(compute(cache)),
        memory: missed(stored, weights, silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(length),
            libm::log2(sequences / silicon.units),
            libm::log2(heads),
            held(stored, silicon),
        ]),
    }
}

/// In what it multiplies at the most: FP8 caches let kernels do so.
const fn compute(cache: KvFormat) -> Compute {
    match cache {
        KvFormat::Bf16 => Compute::Half,
        KvFormat::Fp8 => Compute::Fp8,
    }
}

/// The lane's format of a phase.
pub(crate) fn label(phase: &str, cache: KvFormat) -> String {
    format!("{phase}/{}", cache.label())
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let cache = KvFormat::read(row, "kv_dtype")?;
    let (heads, sequences) = (row.size("heads")?, row.size("batch")?);
    let (new, length) = (row.size("new_tokens")?, row.size("kv_len")?);
    let phase = row.text("op")?;
    let work = match phase {
        "context" if length > new => {
            let size = [sequences, new, length - new];
            let [tokens, alike] = context::alike(size, f64::INFINITY);
            context_work(silicon, cache, heads, [alike, tokens])
        }
        "context" => context_work(silicon, cache, heads, [sequences, new]),
        "generation" => {
            generation_work(silicon, Weights::Rotated, cache, heads, [sequences, length])
        }
        other => {
            return Err(OperatorError::Field {
                column: "op",
                value: other.to_string(),
                wanted: "context or generation",
            });
        }
    };
    Ok(Case {
        format: label(phase, cache),
        work,
        model: String::new(),
        outside: None,
    })
}

fn like(format: &str) -> &'static [&'static str] {
    if format.starts_with("context") {
        &["context/bfloat16", "context/fp8"]
    } else {
        &["generation/bfloat16", "generation/fp8"]
    }
}
