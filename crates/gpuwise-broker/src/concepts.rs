//! The worked examples of `docs/concepts` that are about the broker, run as tests.

#[doc = include_str!("../../../docs/concepts/right-size.md")]
mod right_size {}
