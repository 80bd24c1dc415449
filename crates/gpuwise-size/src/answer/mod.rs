//! Questions to answers: what a row of a table means, and what the models say to it.

mod engine;
mod layout;
mod predict;
mod question;
mod reading;

pub use engine::{engine_of, profile_of, profile_of_engine};
pub use predict::{Kind, Outcome, figure, predict, solve};
pub use question::{Answer, answer, from_outcome, observation};
pub use reading::{Reading, Refusal, Statistic, Wanted, default_settings, read, weights_named};
