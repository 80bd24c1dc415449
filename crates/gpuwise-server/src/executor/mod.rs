//! Executors: who carries out what the broker decides.

mod asking;
mod composed;
#[cfg(test)]
mod conformance;
mod local;
mod logs;
mod simulated;
mod slurm;

pub(crate) use composed::Composed;
pub use local::{Cutter, Local, Suspension, delegation};
pub(crate) use logs::{Logs, Piece};
pub use simulated::{Delays, Simulated};
pub use slurm::{Slurm, SlurmSettings};

use gpuwise_broker::{Broker, Observation, Order};
use gpuwise_units::Nanoseconds;
use std::{fmt::Debug, sync::Arc};

/// Carries out orders. Told twice, an order is carried out once; after a restart it is told all that is
/// still wanted, and finds out by itself what runs already.
pub trait Executor: Send + Debug {
    /// The word of `--executor`.
    fn name(&self) -> &'static str;

    /// Finds what an earlier broker of this log had started, before anything is told: what runs still is gone on
    /// with, what has ended meanwhile is told, and what nobody wants any more is ended.
    fn adopt(&mut self, _broker: &Broker) {}

    /// Takes an order on. `broker` says whose job it is and what runs on it.
    fn take(&mut self, now: Nanoseconds, order: &Order, broker: &Broker);

    /// What has happened since it was last asked.
    fn observe(&mut self, now: Nanoseconds) -> Vec<Observation>;

    /// What processes write; `None`: it keeps nothing of that.
    fn logs(&self) -> Option<Arc<dyn Logs>> {
        None
    }

    /// When there will be something to observe; `None`: it is told by others.
    fn wake_at(&self) -> Option<Nanoseconds>;
}
