//! Readers that must be fast: what every command reads, the catalogue with models' configurations, and
//! what comes by the gigabyte, traces of profilers and of traffic.
//!
//! They are reached through `gpuwise_read`, which has the other readers too. They are a crate of their
//! own because they alone are worth optimising: optimised, all readers were a fifth of a first build.
//! What holds of readers holds of these: nothing opens a file, every reader bounds what it allocates,
//! checks arithmetic, and names the field or offset that was wrong.

pub mod access_log;
pub mod catalogue;
pub mod config;
pub mod flight_recorder;
pub mod hta_rows;
pub mod kineto;
pub mod memory_snapshot;
pub mod network;
pub mod pickle;
pub mod protobuf;
pub mod question;
mod table_error;
pub mod trace_viewer;
pub mod traffic;
pub mod xplane;

pub use table_error::table_error;
