//! The built binary, as people and scripts see it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::similar_names,
    clippy::format_collect,
    reason = "tests may fail at once, say what they skip, and know their exact values"
)]

mod answers;
#[cfg(all(feature = "bench", feature = "database"))]
mod audit;
mod bad_input;
#[cfg(feature = "bench")]
mod bench;
mod broker;
mod buckets;
mod corrections;
mod docs;
#[cfg(feature = "serve")]
mod durable;
mod hub;
mod laws;
mod media;
mod models;
mod observe;
mod odd_rows;
mod operators;
mod own_rows;
mod place;
mod plan;
mod policy;
#[cfg(feature = "nsight")]
mod profile_formats;
#[cfg(all(feature = "database", feature = "bench"))]
mod profile_gpu;
mod profile_job;
mod profile_joined;
#[cfg(feature = "nsight")]
mod profile_told;
#[cfg(feature = "nsight")]
mod readings;
#[cfg(feature = "database")]
mod runs;
#[cfg(all(feature = "database", feature = "bench"))]
mod schemas;
mod shards;
mod simulate;
mod support;
mod tco;
mod tier;
mod train;
mod turns;
mod watch;
