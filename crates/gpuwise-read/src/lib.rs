//! Readers: bytes in, nouns out. Nothing here opens a file or a connection.
//!
//! Input may be hostile or cut short: every reader bounds what it allocates,
//! checks arithmetic, and names the field or offset that was wrong.

pub mod access_log;
pub mod bill;
pub mod catalogue;
pub mod config;
pub mod fabric;
pub mod finding_thresholds;
pub mod fleet;
pub mod flight_recorder;
pub mod gguf;
pub mod host;
pub mod hta_rows;
mod json_error;
pub mod kernel_counters;
pub mod kernel_rules;
pub mod kineto;
pub mod launch;
pub mod matmul;
pub mod memory_snapshot;
pub mod metrics;
pub mod network;
pub mod pickle;
mod protobuf;
pub mod question;
pub mod reliability;
pub mod results;
pub mod safetensors;
pub mod stored;
mod table_error;
pub mod telemetry;
pub mod tier;
pub mod trace_viewer;
pub mod traffic;
pub mod usage;
pub mod workload;
pub mod xplane;

pub use table_error::table_error;

/// The worked example of `docs/concepts/topology.md`, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/concepts/topology.md")]
mod topology {}
