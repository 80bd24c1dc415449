//! Rows of published benchmarks: what they mean, what the models say to them, constants fitted to
//! them, and how far predictions lay from what was measured.
//!
//! The core knows none of it: names of engines, releases and images, tables and recipes are read here
//! into typed setups, and `gpuwise-size` prices those.

pub mod accuracy;
pub mod answer;
#[cfg(doctest)]
mod concepts;
pub mod fit;
pub mod fitting;
mod loaded;
pub mod media;
mod observed;
mod questions;
pub mod schedulers;
mod threads;
pub mod training;

pub use loaded::{Loaded, OwnFile, OwnRows};
pub use observed::{Observed, observed};
pub use questions::{FitInputs, Models, QuestionRow, Rows, answers, canonical, with_stated_gpus};
pub use threads::spread;
