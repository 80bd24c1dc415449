//! Tests of the broker.

mod copies;
mod faults;
mod lives;
mod money;
mod months;
mod support;
