//! Readers against reference counts, worked examples and hostile input.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::similar_names,
    clippy::format_collect,
    clippy::too_many_lines,
    reason = "tests may fail at once, say what they skip, and know their exact values"
)]
// Tests read the catalogue and find their data by the environment; the crate itself must not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod access_log;
mod bill;
mod config_errors;
mod config_mutations;
mod config_sums;
mod costs;
mod engine_facts;
mod fabric;
mod fleet;
mod flight_recorder;
mod gguf;
mod host;
mod json_error;
mod kernel_counters;
mod kineto;
mod launch;
mod matmul;
mod metrics;
mod mig;
mod models;
mod peaks;
mod pickle;
mod recipes;
mod reliability;
mod results;
mod safetensors;
mod scaling;
mod shared_models;
mod sparse_attention;
mod stored;
mod telemetry;
mod tier;
mod traffic;
mod traffic_columns;
mod training_facts;
mod usage;
mod weight_loaders;
mod workload;
mod xplane;
