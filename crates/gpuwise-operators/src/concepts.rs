//! The worked example of `docs/concepts/operators.md`, run as a test.

#[doc = include_str!("../../../docs/concepts/operators.md")]
mod operators {}
