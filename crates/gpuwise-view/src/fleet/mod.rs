//! Fleets: their racks, nodes, GPUs and slices as text, tables and pictures, with who holds what.

mod page;
mod scene;
mod tables;

pub use page::page;
pub use scene::{Scene, Use};
pub use tables::{kinds, nodes, summary};
