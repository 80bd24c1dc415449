//! The worked example of `docs/concepts` that is about published schedulers, run as a test.

#[doc = include_str!("../../../docs/concepts/rounds.md")]
mod rounds {}
