//! Tests of placing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fraction;
mod index;
mod kernel;
mod lint;
mod mig;
mod moves;
mod own;
mod queues;
mod report;
mod rounds;
mod support;
