//! `gpuwise scale`: how many replicas a service has, and who is told.

mod emit;
#[cfg(feature = "serve")]
mod serve;

use super::{Context, Exit};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ScaleCommand {
    /// Write the objects by which an autoscaler of Kubernetes does what a saved plan says
    ///
    /// From --min to --max replicas, each for the requests a second that the plan sustains within its SLO.
    ///
    /// Exit code 0: written. 2: the input is wrong, or the plan cannot be scaled so.
    Emit(Box<emit::Flags>),
    /// Answer KEDA: how many replicas each service is to have (gRPC, external and external-push)
    ///
    /// Every ScaledObject says a query of requests a second and what a replica serves, as `gpuwise scale emit --as
    /// keda` writes them. A source that is silent, or gives what is no rate, changes nothing.
    ///
    /// Exit code 0: told to end, or a log decides the same again. 1: it does not. 2: the input is wrong.
    #[cfg(feature = "serve")]
    Serve(Box<serve::Flags>),
}

pub(super) fn run(context: &Context, command: &ScaleCommand) -> anyhow::Result<Exit> {
    match command {
        ScaleCommand::Emit(flags) => emit::run(context, flags),
        #[cfg(feature = "serve")]
        ScaleCommand::Serve(flags) => serve::run(context, flags),
    }
}
