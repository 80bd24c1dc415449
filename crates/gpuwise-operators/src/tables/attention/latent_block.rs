//! A whole attention block of DeepSeek-V3 with latent attention: projections, norms, rotation, cache
//! write, attention and output projection, without residual and all-reduce.

use super::{
    KvFormat, LAUNCH, context,
    latent::{KEY, LATENT, POSITION, VALUE},
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
use gpuwise_domain::precision::Compute;

/// Width of the layer, and of the latent queries.
const HIDDEN: f64 = 7168.0;
const QUERIES: f64 = 1536.0;
const KERNELS: f64 = 8.0;

/// log2 of new tokens in all, of tokens cached per sequence, of heads, of sequences per SM.
const TOKENS: usize = 0;
const LENGTH: usize = 1;
const HEADS: usize = 2;
const LOAD: usize = 3;

const TENSORS: Tensors = &[
    &[
        (
            TOKENS,
            &[0.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 11.0, 13.0, 16.0],
        ),
        (LENGTH, &[0.0, 6.0, 9.0, 11.0, 12.0, 13.0, 14.0, 17.0]),
    ],
    &[
        (HEADS, &[0.0, 3.0, 5.0, 6.0, 7.0]),
        (TOKENS, &[0.0, 5.0, 8.0, 11.0, 16.0]),
    ],
    &[
        (HEADS, &[0.0, 4.0, 7.0]),
        (LENGTH, &[4.0, 10.0, 13.0, 17.0]),
    ],
    &[
        (LOAD, &[-7.0, -4.0, -1.0, 0.0, 3.0]),
        (LENGTH, &[4.0, 10.0, 13.0, 17.0]),
    ],
];

pub const LATENT_BLOCK: Operator = Operator {
    name: "mla_module",
    shape: &["op", "heads", "batch", "new_tokens", "kv_len"],
    grids: &[TENSORS],
    read,
    like,
    hosts: 1.0,
    smooth: 0.1,
};

/// The work of sequences of new tokens, each ending at a length; absorbed where one token is new.
pub fn work(
    silicon: &Silicon,
    gemm: GemmFormat,
    cache: KvFormat,
    heads: f64,
    [sequences, new, length]: [f64; 3],
) -> Work {
    let tokens = sequences * new;
    let projected = HIDDEN * (QUERIES + LATENT + POSITION)
        + QUERIES * heads * KEY
        + heads * LATENT * 2.0 * VALUE
        + heads * VALUE * HIDDEN;
    let absorbed = new <= 1.0;
    let pairs = sequences * heads * context::pairs(new, (length - new).max(0.0), f64::INFINITY);
    let per_pair = if absorbed {
        2.0 * LATENT + POSITION
    } else {
        KEY + VALUE
    };
    let attention = 2.0 * pairs * per_pair;
    let products = 2.0 * tokens * projected;
    let stored = sequences * length * (LATENT + POSITION) * cache.bytes();
    let bytes = projected * gemm.weight_bytes() + 4.0 * tokens * HIDDEN + stored;
    let fast = match cache {
        KvFormat::Fp8 => Compute::Fp8,
        KvFormat::Bf16 => Compute::Half,
    };
    Work {
        ideal: Ideal::Seconds(
            products / silicon.peak(gemm.compute())
                + attention / silicon.peak(Compute::Half)
                + replayed(bytes, silicon)
                + KERNELS * LAUNCH * silicon.launch(),
        ),
        compute: products / silicon.peak(gemm.compute()) + attention / silicon.peak(fast),
        memory: uncached(stored, silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(tokens),
            libm::log2(length),
            libm::log2(heads),
            libm::log2(sequences / silicon.units),
        ]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let label = row.text("gemm_dtype")?;
    let gemm = GemmFormat::of(label).ok_or_else(|| OperatorError::Field {
        column: "gemm_dtype",
        value: label.to_string(),
        wanted: "bfloat16, fp8_block or nvfp4",
    })?;
    let cache = KvFormat::read(row, "kv_dtype")?;
    let size = [
        row.size("batch")?,
        row.size("new_tokens")?,
        row.size("kv_len")?,
    ];
    let (op, compute) = (row.text("op")?, row.text("compute_dtype")?);
    let eager = row.optional("launch") == Some("eager");
    Ok(Case {
        format: format!("{op}/{}/{compute}/{}", gemm.label(), cache.label()),
        work: work(silicon, gemm, cache, row.size("heads")?, size),
        model: String::new(),
        outside: eager.then_some("timed without a CUDA graph: the host's time"),
    })
}

fn like(format: &str) -> &'static [&'static str] {
    let generation = &[
        "generation/fp8_block/bfloat16/bfloat16",
        "generation/bfloat16/bfloat16/bfloat16",
    ];
    let context = &[
        "context/fp8_block/bfloat16/bfloat16",
        "context/bfloat16/bfloat16/bfloat16",
    ];
    if format.contains("generation") {
        generation
    } else {
        context
    }
}
