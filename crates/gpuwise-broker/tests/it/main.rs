//! Tests of the broker.

mod faults;
mod lives;
mod loop_of_sizes;
mod money;
mod support;
