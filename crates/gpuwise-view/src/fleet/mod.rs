//! Fleets: their racks, nodes, GPUs and slices as text, tables and pictures, with who holds what.

mod scene;
mod tables;

pub use scene::{Scene, Use};
pub use tables::{kinds, nodes, summary};
