//! Tests of the broker.

mod faults;
mod lives;
mod money;
mod support;
