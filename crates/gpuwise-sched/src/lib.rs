//! The scheduler: who runs where on a fleet of GPUs, why, and what would help those who wait.
//!
//! [`decide`](decide::decide) looks at a [`World`](world::World) and never changes it; it gives a plan
//! and a report. [`apply`](world::World::apply) is the only way in which a world changes, event by
//! event. The planner, the simulator and the daemon use both unchanged. Everything is a function of its
//! arguments: no clock, no file, no thread, no chance that is not seeded.

#[cfg(doctest)]
mod concepts;
pub mod decide;
pub mod disruption;
pub mod fit;
pub mod fraction;
pub mod linear;
pub mod lint;
pub mod mig;
pub mod policy;
pub mod queues;
pub mod report;
pub mod rounds;
pub mod world;
