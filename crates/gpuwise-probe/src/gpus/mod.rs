//! Readings of the GPUs of this machine, and pages of exporters.

#[cfg(feature = "nvml")]
mod nvml;
mod sample;
#[cfg(feature = "metrics")]
mod scrape;

#[cfg(feature = "nvml")]
pub use nvml::{Driver, DriverError};
pub use sample::{GpuSample, Sampler, telemetry};
#[cfg(feature = "metrics")]
pub use scrape::{ScrapeError, Scraper};
