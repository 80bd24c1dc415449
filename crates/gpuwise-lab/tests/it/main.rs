//! Integration tests of the lab.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "tests say how near they came")]

#[path = "../../../gpuwise-size/tests/it/fixture.rs"]
#[allow(dead_code, reason = "shared with the tests of the core")]
mod fixture;
mod folds;
mod media;
mod memory_pools;
mod memory_rows;
mod recipes;
mod schedulers;
#[path = "../../../gpuwise-size/tests/it/setups.rs"]
#[allow(dead_code, reason = "shared with the tests of the core")]
mod setups;
mod trainers;
mod training_fit;
mod training_memory_rows;
mod training_rows;
