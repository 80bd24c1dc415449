//! Sees and acts outside of this process: sends load to serving engines, and asks them for their metrics.

pub mod bench;
pub mod gpus;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod otlp;
#[cfg(feature = "metrics")]
pub mod prometheus;
mod retry_after;
#[cfg(feature = "metrics")]
pub mod usage;
