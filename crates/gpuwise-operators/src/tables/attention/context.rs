//! Causal attention of new tokens over themselves and what is cached before them.

use super::{Heads, KvFormat, LAUNCH, multiplies_as_cached, replayed, uncached};
use crate::{
    OperatorError, Row, Silicon,
    grid::{Axis, Tensors},
    tables::{Case, Ideal, Operator, Point, Work},
};
use alloc::string::String;
use gpuwise_domain::precision::Compute;

/// log2 of tokens, of (queries × heads) per SM, of the head's width, of queries per key, of the
/// window.
const TOKENS: usize = 0;
const LOAD: usize = 1;
const WIDTH: usize = 2;
const GROUP: usize = 3;
const WINDOW: usize = 4;

const TOKENS_COARSE: Axis = (TOKENS, &[4.0, 7.0, 10.0, 13.0]);
const LOAD_COARSE: Axis = (LOAD, &[-4.0, 2.0, 6.0, 9.0, 14.0]);
const WIDTHS: Axis = (WIDTH, &[6.0, 7.0, 7.585, 8.0, 9.0]);
const GROUPS: Axis = (GROUP, &[0.0, 1.0, 3.0, 6.6]);
const WINDOWS: Axis = (WINDOW, &[7.0, 13.0, 14.0]);

const TENSORS: Tensors = &[
    &[
        (TOKENS, &[0.0, 4.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 14.0]),
        (
            LOAD,
            &[
                -7.0, -3.0, 0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0,
            ],
        ),
    ],
    &[WIDTHS, TOKENS_COARSE],
    &[WIDTHS, LOAD_COARSE],
    &[GROUPS, TOKENS_COARSE],
    &[GROUPS, LOAD_COARSE],
    &[WINDOWS, TOKENS_COARSE],
    &[WINDOWS, LOAD_COARSE],
    &[WIDTHS, GROUPS],
];

/// Attention over prompts.
pub const CONTEXT: Operator = Operator {
    name: "attention_context",
    shape: &[
        "q_heads", "kv_heads", "head_dim", "window", "batch", "seq_len",
    ],
    grids: &[TENSORS],
    read,
    like,
    hosts: 1.0,
    smooth: 0.1,
};

/// Number formats of attention over prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Of queries, and of what they are multiplied with where the engine does not choose otherwise.
    pub compute: KvFormat,
    /// Of the cache that keys and values are written to.
    pub cache: KvFormat,
    /// Whether the engine multiplies in the cache's format.
    pub as_cached: bool,
}

impl Formats {
    /// Those of an engine on this GPU.
    pub fn of(compute: KvFormat, cache: KvFormat, engine: &str, silicon: &Silicon) -> Self {
        Self {
            compute,
            cache,
            as_cached: multiplies_as_cached(engine, silicon),
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match (self.compute, self.cache) {
            (KvFormat::Bf16, KvFormat::Bf16) => "bfloat16",
            (KvFormat::Bf16, KvFormat::Fp8) => "bfloat16 over fp8",
            (KvFormat::Fp8, KvFormat::Fp8) => "fp8",
            (KvFormat::Fp8, KvFormat::Bf16) => "fp8 over bfloat16",
        }
    }

    fn multiplied(self) -> Compute {
        let cached = self.as_cached && self.cache == KvFormat::Fp8;
        if cached || self.compute == KvFormat::Fp8 {
            Compute::Fp8
        } else {
            Compute::Half
        }
    }
}

/// Pairs of query and key of one head: tokens `cached..cached + new` over all before them and
/// themselves, as far as the window reaches.
pub(crate) fn pairs(new: f64, cached: f64, limit: f64) -> f64 {
    let growing = (limit - cached).clamp(0.0, new);
    let full = new - growing;
    let seen = growing * cached + growing * (growing + 1.0) / 2.0;
    // At the limit, so that an infinite one adds nothing.
    let seen = if full > 0.0 {
        seen + full * limit
    } else {
        seen
    };
    // Of a part of a query the sum counts the token itself whole: no query sees more than the window.
    seen.min(new * limit)
}

/// Sequences without a prefix that are like sequences of new tokens after cached ones: the same pairs,
/// the same queries, the same mean length of the loop over keys. How long they are, and how many.
pub(crate) fn alike([sequences, new, cached]: [f64; 3], limit: f64) -> [f64; 2] {
    let asked = pairs(new, cached, limit);
    let seen = asked / new;
    // Inverts the mean of pairs per query, first before and then after the window is full.
    let tokens = if 2.0 * seen <= limit + 1.0 {
        2.0 * seen - 1.0
    } else {
        (limit * (limit - 1.0) / (2.0 * (limit - seen).max(0.0))).min(FULL * limit)
    };
    let tokens = tokens.max(SHORTEST);
    [tokens, sequences * asked / pairs(tokens, 0.0, limit)]
}

/// Tokens below which prompts are not asked apart.
const SHORTEST: f64 = 8.0;
/// Windows of tokens after which all queries see a full one, near enough.
const FULL: f64 = 8.0;

/// The work of sequences of tokens.
pub fn work(
    silicon: &Silicon,
    formats: Formats,
    heads: &Heads,
    [sequences, length]: [f64; 2],
) -> Work {
    let flop = 4.0 * sequences * heads.queries * heads.width * pairs(length, 0.0, heads.limit());
    let compute = flop / silicon.peak(formats.multiplied());
    let tokens = sequences * length * heads.width;
    let stored = tokens * 2.0 * heads.keys * formats.cache.bytes();
    let bytes = tokens * 4.0 * (heads.queries + heads.keys) + stored;
    // Queries, keys and values may come in FP8 and go out so.
    let least = tokens * 2.0 * formats.compute.bytes() * (heads.queries + heads.keys) + stored;
    Work {
        ideal: Ideal::Seconds(compute + replayed(bytes, silicon) + LAUNCH * silicon.launch()),
        compute,
        memory: uncached(least, silicon) / silicon.bandwidth,
        at: Point::new([
            libm::log2(length),
            libm::log2(sequences * length * heads.queries / silicon.units),
            libm::log2(heads.width),
            libm::log2(heads.queries / heads.keys),
            heads.window_place(length),
        ]),
    }
}

fn read(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let formats = Formats::of(
        KvFormat::read(row, "compute_dtype")?,
        KvFormat::read(row, "kv_dtype")?,
        row.text("engine")?,
        silicon,
    );
    let heads = Heads::read(row)?;
    let size = [row.size("batch")?, row.size("seq_len")?];
    Ok(Case {
        format: String::from(formats.label()),
        work: work(silicon, formats, &heads, size),
        model: String::new(),
        outside: None,
    })
}

pub(super) fn like(format: &str) -> &'static [&'static str] {
    match format {
        "bfloat16 over fp8" => &["fp8", "bfloat16"],
        "bfloat16" => &["bfloat16 over fp8", "fp8"],
        _ => &["fp8", "bfloat16 over fp8", "bfloat16"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(new: u32, cached: u32, limit: u32) -> f64 {
        (cached..cached + new)
            .map(|i| f64::from((i + 1).min(limit)))
            .sum()
    }

    #[test]
    fn pairs_are_those_counted() {
        for (new, cached, limit) in [
            (1, 0, 9),
            (7, 0, 3),
            (7, 5, 3),
            (7, 5, 9),
            (4, 9, 1000),
            (8, 2, 3),
        ] {
            let found = pairs(f64::from(new), f64::from(cached), f64::from(limit));
            // A window's first query sees itself: the closed form may differ by the token of the edge.
            let wanted = counted(new, cached, limit);
            assert!(
                (found - wanted).abs() < 1e-9,
                "{new} after {cached} within {limit}: {found}"
            );
        }
        assert!((pairs(4.0, 2.0, f64::INFINITY) - (3.0 + 4.0 + 5.0 + 6.0)).abs() < 1e-9);
    }

    #[test]
    fn no_query_sees_more_than_the_window() {
        // The last part of a query before the window is full.
        let [tokens, sequences] = alike([20.0, 9.9, 127.1], 128.0);
        assert!((pairs(9.9, 127.1, 128.0) - 9.9 * 128.0).abs() < 1e-9);
        assert!((tokens - FULL * 128.0).abs() < 1e-6, "{tokens}");
        let asked = sequences * pairs(tokens, 0.0, 128.0);
        assert!((asked - 20.0 * 9.9 * 128.0).abs() < 1e-6);
    }
}
