//! How many replicas now, and in ten minutes.
//!
//! Everything is a function of what was observed: no clock, file or thread. State is a value that can be written
//! down and read back, and then goes on to the same answers.
//!
//! - [`forecast`]: demand with ranges, learned while it is watched;
//! - [`controller`]: how many replicas and warm spares are wanted, and why;
//! - [`peers`]: what others' autoscalers want, by their published rules;
//! - [`fluid`]: a service as a queue that flows, to see what a controller costs and keeps.

pub mod controller;
pub mod fluid;
pub mod forecast;
pub mod peers;
