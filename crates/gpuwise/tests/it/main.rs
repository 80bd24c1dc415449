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
mod answers_agree;
#[cfg(all(feature = "bench", feature = "database"))]
mod audit;
mod bad_input;
#[cfg(feature = "serve")]
mod batch;
#[cfg(feature = "bench")]
mod bench;
mod broker;
mod buckets;
mod corrections;
mod docs;
#[cfg(feature = "serve")]
mod durable;
mod fixes;
mod forecast;
#[cfg(feature = "serve")]
mod gateway;
mod headlines;
mod hub;
mod laws;
#[cfg(feature = "serve")]
mod loop_replay;
mod media;
mod models;
mod observe;
mod odd_rows;
mod operators;
mod optimize;
mod optimize_exact;
mod optimize_gguf;
mod optimize_hostile;
#[cfg(all(unix, feature = "hub"))]
mod optimize_measure;
#[cfg(unix)]
mod optimize_onnx;
mod optimize_prune;
mod optimize_stays;
mod own_rows;
mod place;
mod plan;
mod policy;
#[cfg(feature = "serve")]
mod pooled;
mod prices;
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
mod readme;
#[cfg(feature = "serve")]
mod replay_log;
#[cfg(feature = "serve")]
mod right_size;
#[cfg(feature = "database")]
mod runs;
#[cfg(feature = "serve")]
mod scale;
mod scaled;
mod scaled_by_tokens;
#[cfg(all(feature = "database", feature = "bench"))]
mod schemas;
#[cfg(feature = "serve")]
mod secure;
mod shards;
mod simulate;
mod support;
#[cfg(feature = "serve")]
mod suspend;
mod tco;
mod tier;
#[cfg(feature = "serve")]
mod traces;
mod train;
mod turns;
mod watch;
