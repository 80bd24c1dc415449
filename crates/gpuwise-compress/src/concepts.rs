//! The worked examples of `docs/concepts` that are about smaller weights, run as tests.

#[doc = include_str!("../../../docs/concepts/smaller-weights.md")]
mod smaller_weights {}
