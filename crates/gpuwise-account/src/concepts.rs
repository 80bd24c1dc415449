//! The worked examples of `docs/concepts` that are about accounting, run as tests.

#[doc = include_str!("../../../docs/concepts/money.md")]
mod money {}

#[doc = include_str!("../../../docs/guides/bill-a-month.md")]
mod month {}
