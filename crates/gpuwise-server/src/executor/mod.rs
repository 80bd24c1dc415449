//! Executors: who carries out what the broker decides.

mod accounts;
mod asking;
mod composed;
#[cfg(test)]
mod conformance;
mod daemon;
mod local;
mod queued;
mod simulated;
mod slurm;

pub use accounts::AccountNames;
pub(crate) use accounts::Accounts;
pub(crate) use composed::Composed;
pub(crate) use daemon::Daemon;
pub use gpuwise_broker::Executor;
pub(crate) use gpuwise_broker::{Logs, Piece};
pub use local::{Cutter, Local, Suspension, delegation};
pub(crate) use queued::{Queued, Shows};
pub use simulated::{Delays, Simulated};
pub use slurm::{RestAddress, Slurm, SlurmSettings, TokenFrom};
