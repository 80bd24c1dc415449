//! Executors: who carries out what the broker decides.

mod accounts;
mod asking;
mod composed;
#[cfg(test)]
mod conformance;
mod daemon;
mod local;
mod queued;
mod remains;
mod simulated;
mod slurm;

pub use accounts::AccountNames;
pub(crate) use accounts::Accounts;
pub(crate) use composed::Composed;
pub(crate) use daemon::Daemon;
pub use gpuwise_broker::Executor;
pub(crate) use gpuwise_broker::{Logs, Piece};
pub use local::{
    Account, Cutter, Local, LocalSettings, RunAs, SUPERVISOR, Suspension, delegation, supervise,
};
pub(crate) use local::{Own, Supervisor, guarded::trusted, kept_elsewhere, runs as local_runs};
pub(crate) use queued::{Queued, Shows};
pub(crate) use remains::Remains;
pub use simulated::{Delays, Simulated};
pub(crate) use slurm::runs as slurm_runs;
pub use slurm::{RestAddress, Slurm, SlurmSettings, TokenFrom};
