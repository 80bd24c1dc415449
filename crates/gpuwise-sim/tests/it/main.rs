//! Tests of simulated serving.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::similar_names,
    clippy::many_single_char_names,
    clippy::large_enum_variant,
    clippy::struct_field_names,
    reason = "tests may fail at once and say what they skip"
)]
// Tests find their data by the environment; the crate itself must not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod cache;
mod cache_naive;
mod cluster;
mod engine_naive;
mod engine_oracles;
mod engine_rules;
mod engine_tables;
mod faults;
mod forecast;
mod goodput;
mod machines;
mod metrics;
mod naive;
mod naive_cost;
mod naive_pool;
mod openb;
mod traffic;
