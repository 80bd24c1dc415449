//! Fleets in simulated time: traces of clusters replayed through the scheduler, one driver for each kind, and machines
//! for services that scale.

pub mod executor;
mod machines;
pub mod openb;
mod plans;

pub use machines::{KernelMachines, NoMachines};
pub use plans::PlansHash;
