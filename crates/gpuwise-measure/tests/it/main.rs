//! Tests of the crate from outside.

#![allow(
    clippy::unwrap_used,
    clippy::unnecessary_wraps,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::similar_names,
    clippy::format_collect,
    reason = "tests may fail at once, say what they skip, and know their exact values"
)]
// Tests read the sample data, which they find by the environment; the crate itself must not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod audit;
mod audit_search;
mod compat_hta;
mod figures;
mod findings;
mod hung;
mod kernel_counters;
mod learn;
mod memory_snapshot;
mod operators;
mod planes;
mod proof;
mod regress;
mod sample_data;
mod sequence;
mod streams;
mod support;
mod telemetry;
mod tier;
mod traces;
