//! The worked examples of `docs/concepts`, run as tests.

#[doc = include_str!("../../../docs/concepts/tier-choice.md")]
mod tier_choice {}

#[doc = include_str!("../../../docs/concepts/profile-figures.md")]
mod profile_figures {}
