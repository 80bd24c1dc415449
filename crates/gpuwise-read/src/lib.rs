//! Readers: bytes in, nouns out. Nothing here opens a file or a connection.
//!
//! Input may be hostile or cut short: every reader bounds what it allocates,
//! checks arithmetic, and names the field or offset that was wrong.

pub mod bill;
pub mod fabric;
pub mod finding_thresholds;
pub mod fleet;
pub mod gguf;
pub mod host;
pub mod kernel_counters;
pub mod kernel_rules;
pub mod launch;
pub mod matmul;
pub mod metrics;
pub mod recording;
pub mod reliability;
pub mod results;
pub mod safetensors;
pub mod scaling;
pub mod stored;
pub mod telemetry;
pub mod tier;
pub mod usage;
pub mod weight_loaders;
pub mod workload;

/// Readers of what every command reads, and of what comes by the gigabyte.
pub use gpuwise_scan::{
    access_log, catalogue, config, flight_recorder, hta_rows, json_error, kineto, memory_snapshot,
    network, pickle, question, table_error, trace_viewer, traffic, xplane,
};

/// The worked example of `docs/concepts/topology.md`, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/topology.md")]
mod topology {}
