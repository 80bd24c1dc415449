//! Tests of placing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod disruption;
mod forecast;
mod fraction;
mod index;
mod kernel;
mod lint;
mod mig;
mod queues;
mod report;
mod restart;
// Unit tests.
#[allow(dead_code, reason = "of what it finds, the value alone is tested")]
#[path = "../../src/linear.rs"]
mod linear;
mod support;
