//! The worked examples of `docs/concepts`, run as tests.

#[doc = include_str!("../../../docs/concepts/tier-choice.md")]
mod tier_choice {}
