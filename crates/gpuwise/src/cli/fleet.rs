//! Flags of `gpuwise fleet`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Check a fleet file, and show what it describes
    ///
    /// Every problem with its line; then racks, nodes, GPUs with a mark for the state of each, and what
    /// may be a mistake. With --jobs the job file is checked, too, and who runs where is shown.
    ///
    /// Exit code 0: it is right. 2: it is not.
    Check(FleetCheck),
}

#[derive(Debug, Args)]
pub(crate) struct FleetCheck {
    /// The fleet (TOML)
    #[arg(value_name = "FLEET")]
    pub(crate) fleet: PathBuf,
    /// Jobs that run or wait on it (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
}
