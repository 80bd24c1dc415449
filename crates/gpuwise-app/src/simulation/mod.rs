//! Deployments under traffic, simulated: what `simulate`, `validate`, `predict --simulate` and
//! `plan --simulate` have in common.

mod changes;
mod clients;
mod cluster;
mod deployment;
#[cfg(test)]
mod laws;
mod questions;
mod recorded;
mod run;
mod shapes;
mod traffic;

pub use cluster::{Cluster, routing};
pub use deployment::{Neighbour, Shapes, Simulated, read, words};
pub use questions::{Simulate, simulated};
pub use run::{Run, run, run_many};
#[cfg(feature = "bench")]
pub(crate) use shapes::conversations;
pub use traffic::Sent;
#[cfg(feature = "bench")]
pub(crate) use traffic::time;
