//! What our own foreign calls do to a GPU of this machine: time it (copies, fills, launches and matrix products),
//! and cut it into MIG instances.
//!
//! The driver, its management library and cuBLAS are loaded when they are asked for; where one is missing, that is an
//! error that says so. Everything but [`measure`] and [`Boards`] is arithmetic and needs no GPU.

#[cfg(feature = "timing")]
mod device;
#[cfg(feature = "timing")]
mod error;
#[cfg(feature = "mig")]
mod mig;
#[cfg(feature = "timing")]
mod operands;
#[cfg(feature = "timing")]
mod products;
#[cfg(feature = "timing")]
mod report;
#[cfg(feature = "timing")]
mod sample;
#[cfg(feature = "timing")]
mod work;

#[cfg(feature = "timing")]
pub use device::{DeviceFacts, measure};
#[cfg(feature = "timing")]
pub use error::CudaError;
#[cfg(feature = "mig")]
pub use mig::Boards;
#[cfg(feature = "timing")]
pub use report::{Report, Timing};
#[cfg(feature = "timing")]
pub use sample::Sample;
#[cfg(feature = "timing")]
pub use work::{Group, Options, Precision, Shape, Work};
