//! Tests of placing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backlog;
mod bounds;
mod disruption;
mod forecast;
mod fraction;
mod index;
mod kernel;
mod linear;
mod lint;
mod live;
mod measured_pairs;
mod mig;
#[path = "../../src/world/pages.rs"]
#[allow(dead_code, unreachable_pub, reason = "its own tests run here")]
mod pages;
mod pairs;
mod queues;
mod ranking;
mod report;
mod restart;
mod rounds;
mod stored;
mod support;
mod wake;
