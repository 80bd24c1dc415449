//! `gpuwise fleet`: fleet files.

mod check;

use super::{Answer, Context};
use crate::cli::FleetCommand;

pub(crate) fn run(context: &Context, command: &FleetCommand) -> anyhow::Result<Answer> {
    match command {
        FleetCommand::Check(flags) => check::run(context, flags),
    }
}
