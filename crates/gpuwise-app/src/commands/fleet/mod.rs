//! `gpuwise fleet`: fleet files.

mod check;
#[cfg(feature = "serve")]
mod composed;
#[cfg(not(feature = "serve"))]
#[path = "not_composed.rs"]
mod composed;
mod import;
#[cfg(feature = "kubernetes")]
mod live;
#[cfg(not(feature = "kubernetes"))]
#[path = "no_live.rs"]
mod live;
mod mig;

#[cfg(feature = "kubernetes")]
pub(super) use live::{troubled, wrong};

use super::{Context, Exit};
use crate::settings::FleetCommand;

pub fn run(context: &Context, command: &FleetCommand) -> anyhow::Result<Exit> {
    match command {
        FleetCommand::Check(flags) => check::run(context, flags),
        FleetCommand::Mig(flags) => mig::run(context, flags),
        FleetCommand::Import(flags) => import::run(context, flags),
    }
}
