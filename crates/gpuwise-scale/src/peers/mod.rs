//! What others' autoscalers want, by their published rules.

mod hpa;
mod kpa;

pub use hpa::{Hpa, Metric};
pub use kpa::Kpa;
