//! Fleets: their racks, nodes, GPUs and slices as text, tables and pictures, with who holds what.

mod page;
mod pending;
mod scene;
mod tables;

pub use page::page;
pub use pending::pending;
pub use scene::{Scene, Use};
pub use tables::{kinds, nodes, summary};
