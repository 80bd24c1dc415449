//! Traces of clusters replayed through the scheduler: one driver for each kind of trace.

pub mod executor;
pub mod gavel;
pub mod genai;
pub mod openb;
pub mod philly;
mod plans;

pub use plans::PlansHash;
