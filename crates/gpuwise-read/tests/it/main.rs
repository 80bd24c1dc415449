//! Readers against reference counts, worked examples and hostile input.

// Tests read the catalogue and find their data by the environment; the crate itself must not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod access_log;
mod config_errors;
mod config_mutations;
mod config_sums;
mod engine_facts;
mod flight_recorder;
mod gguf;
mod kernel_counters;
mod kineto;
mod launch;
mod matmul;
mod metrics;
mod models;
mod pickle;
mod results;
mod safetensors;
mod shared_models;
mod stored;
mod telemetry;
mod tier;
mod traffic;
mod traffic_columns;
mod usage;
mod workload;
mod xplane;
