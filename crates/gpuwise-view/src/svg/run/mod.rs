//! Pictures of runs: distributions, what happened over time, load against latency.

mod distribution;
mod ladder;
mod over_time;
pub(super) mod plot;

pub use distribution::distribution;
pub use ladder::ladder;
pub use over_time::{Panel, over_time};
