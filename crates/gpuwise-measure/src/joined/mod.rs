//! Recordings on the time axis of a trace: GPU counters, the host, the application.

mod axis;
mod clocks;
mod devices;

pub use axis::{Axis, JoinError, UtcSpan, join};
pub use clocks::give_clocks;
pub use devices::{assign, unassigned};
