//! Others' published controllers, to compare with.
//!
//! Each is what its documentation says, with its defaults, on the metrics that it reads; what is configured per
//! service is one target, that users sweep.

mod dynamo;
mod fixed;
mod hpa;
mod kpa;
mod trend;
mod wva;

pub use dynamo::Dynamo;
pub use fixed::{Foreseeing, Static};
pub use hpa::{Hpa, Metric};
pub use kpa::Kpa;
pub use trend::Trend;
pub use wva::Wva;
