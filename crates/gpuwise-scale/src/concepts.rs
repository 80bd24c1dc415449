//! The worked examples of `docs/concepts` that are about demand, run as tests.

#[doc = include_str!("../../../docs/concepts/forecast.md")]
struct Forecast;

#[doc = include_str!("../../../docs/concepts/controller.md")]
struct Controller;

#[doc = include_str!("../../../docs/concepts/cold-start.md")]
struct ColdStart;
