//! `gpuwise fleet`: fleet files.

mod check;
mod import;
mod mig;

use super::{Answer, Context};
use crate::cli::FleetCommand;

pub(crate) fn run(context: &Context, command: &FleetCommand) -> anyhow::Result<Answer> {
    match command {
        FleetCommand::Check(flags) => check::run(context, flags),
        FleetCommand::Mig(flags) => mig::run(context, flags),
        FleetCommand::Import(flags) => import::run(context, flags),
    }
}
