//! Traces of clusters replayed through the scheduler: one driver for each kind of trace.

pub mod executor;
pub mod openb;
mod plans;

pub use plans::PlansHash;
