//! What is shown, held against what it should look like.

// Tests read the catalogue and find their data by the environment; the crate itself must not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![allow(clippy::unwrap_used, clippy::float_cmp)]

mod audit;
mod figures;
mod fixture;
mod fleet;
mod html;
mod launch;
mod launch_forms;
mod memory;
mod names;
mod plan;
mod profile;
mod replay;
mod run;
mod run_fixture;
mod shards;
mod sources;
mod svg;
mod table;
mod training;
mod training_recipes;
