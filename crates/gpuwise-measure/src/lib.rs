//! What profiles and telemetry say: figures, findings, tier choice, audit and proof.
//!
//! Nothing here opens a file, reads a clock or draws unseeded chance: readers bring
//! [timelines](gpuwise_domain::profile::timeline::Timeline) and series, callers bring the time.

pub mod audit;
pub mod compat_hta;
#[cfg(doctest)]
mod concepts;
pub mod difference;
pub mod drift;
pub mod figures;
pub mod findings;
pub mod hung;
pub mod joined;
pub mod kernel_counters;
pub mod learn;
pub mod memory_snapshot;
pub mod nsight;
pub mod operators;
pub mod planes;
pub mod proof;
pub mod regress;
pub mod sources;
pub mod streams;
pub mod telemetry;
pub mod tier;
