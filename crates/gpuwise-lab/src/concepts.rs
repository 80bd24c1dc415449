//! The worked examples of `docs/concepts` that are about published schedulers and benchmarks, run as tests.

#[doc = include_str!("../../../docs/concepts/rounds.md")]
mod rounds {}

#[doc = include_str!("../../../docs/concepts/time-to-quality.md")]
mod time_to_quality {}
