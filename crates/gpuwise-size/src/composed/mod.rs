//! Hosts that are composed of pooled GPUs over a PCIe fabric.

mod layouts;
mod link;
pub mod replay;

pub use layouts::{LayoutStep, Load, Taken, explain, layouts};
pub use link::{all_reduce, send, share};
