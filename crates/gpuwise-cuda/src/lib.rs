//! Times what a GPU of this machine does: copies, fills, launches and matrix products.
//!
//! The driver and cuBLAS are loaded when they are asked for; where one is missing, that is an error
//! that says so. Everything but [`measure`] is arithmetic and needs no GPU.

mod device;
mod error;
mod operands;
mod products;
mod report;
mod sample;
mod work;

pub use device::{DeviceFacts, measure};
pub use error::CudaError;
pub use report::{Report, Timing};
pub use sample::Sample;
pub use work::{Group, Options, Precision, Shape, Work};
