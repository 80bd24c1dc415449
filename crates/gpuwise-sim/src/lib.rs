//! Simulated serving: what a deployment does under traffic, request by request.
//!
//! Everything here is a function of its arguments and a seed: no clock, no file, no thread. Time is
//! counted in whole picoseconds inside the engine and told in nanoseconds.

pub mod cache;
pub mod cluster;
#[cfg(doctest)]
mod concepts;
pub mod cost;
pub mod deployed;
pub mod engine;
pub mod fleet;
pub mod metrics;
pub mod tables;
pub mod traffic;
