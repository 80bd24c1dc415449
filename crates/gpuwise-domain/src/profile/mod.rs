//! What profilers and telemetry saw of a job, and what is concluded from it.

pub mod figure;
pub mod figures;
pub mod finding;
pub mod flight_recorder;
pub mod hta;
pub mod joined;
pub mod kernel_counters;
pub mod kernel_rules;
pub mod matmul;
pub mod memory_snapshot;
pub mod nsight;
pub mod parallel;
pub mod planes;
pub mod sources;
pub mod timeline;
