//! Attention kernels, without projections: over prompts, over one new token, over images, and over a
//! latent cache.

pub mod context;
pub mod encoder;
pub mod generation;
pub mod latent;
pub mod latent_block;
pub mod latent_product;

use crate::{Class, OperatorError, Row, Silicon, tables::Weights};
use alloc::string::ToString as _;

/// Number format of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KvFormat {
    /// BF16 or FP16.
    Bf16,
    /// FP8, one byte an element; scales are negligible.
    Fp8,
}

impl KvFormat {
    pub const fn label(self) -> &'static str {
        match self {
            Self::Bf16 => "bfloat16",
            Self::Fp8 => "fp8",
        }
    }

    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 => 1.0,
        }
    }

    pub(crate) fn read(row: &Row<'_>, column: &'static str) -> Result<Self, OperatorError> {
        match row.text(column)? {
            "bfloat16" | "float16" | "half" | "auto" => Ok(Self::Bf16),
            "fp8" => Ok(Self::Fp8),
            other => Err(OperatorError::Field {
                column,
                value: other.to_string(),
                wanted: "bfloat16 or fp8",
            }),
        }
    }
}

/// Heads of an attention layer on one GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heads {
    /// Query heads on one GPU, after tensor parallelism.
    pub queries: f64,
    /// Heads of keys and values.
    pub keys: f64,
    /// Elements of a head.
    pub width: f64,
    /// Tokens that a query looks back at most, itself included; 0 is no limit.
    pub window: f64,
}

impl Heads {
    fn read(row: &Row<'_>) -> Result<Self, OperatorError> {
        Ok(Self {
            queries: row.size("q_heads")?,
            keys: row.size("kv_heads")?,
            width: row.size("head_dim")?,
            window: row.count("window")?,
        })
    }

    /// Tokens seen at most.
    pub(crate) fn limit(&self) -> f64 {
        if self.window > 0.0 {
            self.window
        } else {
            f64::INFINITY
        }
    }

    /// Where a window lies on its axis: `NO_WINDOW` where none limits this length.
    fn window_place(&self, length: f64) -> f64 {
        if self.window > 0.0 && self.window < length {
            libm::log2(self.window).min(NO_WINDOW)
        } else {
            NO_WINDOW
        }
    }
}

/// Knot of lengths that no window limits.
const NO_WINDOW: f64 = 14.0;
/// Seconds of one small kernel in a CUDA graph, reading its arguments and writing a row.
const LAUNCH: f64 = 2.7e-6;

/// Engines that multiply in FP8 where the cache is FP8, though activations are BF16: TensorRT-LLM, and
/// vLLM on data-centre Blackwell, which calls the same kernels.
fn multiplies_as_cached(engine: &str, silicon: &Silicon) -> bool {
    let blackwell = silicon.class == Class::Hbm && silicon.architecture.0 == "sm10x";
    engine == "trtllm" || (engine == "vllm" && blackwell)
}

/// Share of the second-level cache that holds what the next replay reads again.
const CACHED: f64 = 0.6;

/// Second-level cache per SM where it is not known.
const CACHE_PER_UNIT: f64 = 0.4e6;

/// log2 of bytes over the second-level cache.
fn held(bytes: f64, silicon: &Silicon) -> f64 {
    let cache = if silicon.l2 > 0.0 {
        silicon.l2
    } else {
        silicon.units * CACHE_PER_UNIT
    };
    libm::log2(bytes / cache)
}

/// Seconds to move bytes that replays of the graph touch again and again: what the second-level cache
/// holds of them comes out of it.
fn replayed(bytes: f64, silicon: &Silicon) -> f64 {
    let missed = (1.0 - CACHED * silicon.l2 / bytes).clamp(0.0, 1.0);
    bytes * (missed * silicon.memory() + (1.0 - missed) / silicon.l2_bandwidth())
}

/// Seconds to move a cache's bytes: as when measured, or as when serving, where other layers have
/// replaced them since the last step.
fn moved(bytes: f64, weights: Weights, silicon: &Silicon) -> f64 {
    match weights {
        Weights::Rotated => replayed(bytes, silicon),
        Weights::Cold => bytes * silicon.memory(),
    }
}

/// Bytes of a cache that must come from memory.
fn missed(bytes: f64, weights: Weights, silicon: &Silicon) -> f64 {
    match weights {
        Weights::Rotated => uncached(bytes, silicon),
        Weights::Cold => bytes,
    }
}

/// Bytes that must come from memory: none where they may lie in the second-level cache.
fn uncached(bytes: f64, silicon: &Silicon) -> f64 {
    if bytes > 2.0 * silicon.l2 { bytes } else { 0.0 }
}
