//! Tests of placing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod index;
mod fraction;
mod kernel;
mod lint;
mod report;
mod mig;
mod moves;
mod rounds;
mod queues;
mod own;
mod support;
