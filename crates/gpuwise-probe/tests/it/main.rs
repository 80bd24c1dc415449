//! Load on servers that behave, and on those that do not.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::similar_names,
    clippy::format_collect,
    reason = "tests may fail at once, say what they skip, and know their exact values"
)]

mod bad_servers;
#[cfg(feature = "metrics")]
mod collect;
mod events;
#[cfg(feature = "metrics")]
mod fleets;
mod good_servers;
#[cfg(feature = "nsight")]
mod nsight;
mod otlp;
#[cfg(feature = "metrics")]
mod prometheus;
mod prompts;
mod scripted;
mod targets;
mod tls;
#[cfg(feature = "metrics")]
mod watching;
