//! `gpuwise scale`: how many replicas demand needs, what autoscalers make of it, and who is told.

mod costs;
mod decisions;
#[cfg(feature = "serve")]
mod defined;
pub(crate) mod emit;
mod engines;
mod fleet;
mod mixes;
mod plan;
mod policy;
mod replay;
mod runs;
#[cfg(feature = "serve")]
mod serve;
mod service;
mod shown;
mod starts;
mod variants;

#[cfg(feature = "serve")]
pub(super) use serve::server_problem;

use super::{Context, Exit};
use clap::Subcommand;

/// What is asked about scaling.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say how a saved deployment is to follow demand, and what that costs
    ///
    /// The rate of a replica is what the deployment sustains within its SLO. How long a replica takes to start is
    /// found from the bytes of its weights and published times of the stages before and after, unless --start says
    /// it. What is said of ours beside static and the usual autoscaler is of a replay of this demand.
    ///
    /// Exit code 0: planned. 1: the objective cannot be kept. 2: the input is wrong.
    Plan(Box<plan::Flags>),
    /// Run autoscalers beside one another on the same demand
    ///
    /// A service as a flow: demand in, replicas that serve at a rate and take a while to start. Published autoscalers
    /// (Kubernetes' HPA, KEDA, Knative's KPA, Dynamo's planner, llm-d's WVA, a trend) try sixteen targets each, and
    /// the cheapest that keeps the objective is shown; ours is told the objective alone. `perfect` knows the rate
    /// that comes, and `static` never changes. The same seed gives the same answer. With --step requests are run one
    /// by one, all of them, each waiting for room in a replica.
    ///
    /// With --variants ours decides how many replicas of each variant serve and are warm: the cheapest mix that
    /// serves what comes and survives the loss of a spot pool, beside each variant alone; services of the file share
    /// its pools. --log keeps each decision, and --again decides them again.
    ///
    /// Exit code 0: replayed. 1: --again decides otherwise. 2: the input is wrong.
    Replay(Box<replay::Flags>),
    /// Write the objects by which an autoscaler of Kubernetes does what a saved plan says
    ///
    /// From --min to --max replicas, each for the requests a second that the plan sustains within its SLO.
    ///
    /// Exit code 0: written. 2: the input is wrong, or the plan cannot be scaled so.
    Emit(Box<emit::Flags>),
    /// Answer KEDA and Kubernetes: how many replicas each service is to have
    ///
    /// KEDA by gRPC (external and external-push): every ScaledObject says a query of requests a second and what a
    /// replica serves, as `gpuwise scale emit --as keda` writes them. Kubernetes' own autoscaler by external metrics
    /// (--external-metrics), of services that --services names, as `gpuwise scale emit --as external-metrics` writes
    /// them. A source that is silent, or gives what is no rate, changes nothing.
    ///
    /// Exit code 0: told to end, or a log decides the same again. 1: it does not. 2: the input is wrong.
    #[cfg(feature = "serve")]
    Serve(Box<serve::Flags>),
}

pub(super) fn run(context: &Context, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Plan(flags) => plan::run(context, flags),
        Command::Replay(flags) => replay::run(context, flags),
        Command::Emit(flags) => emit::run(context, flags),
        #[cfg(feature = "serve")]
        Command::Serve(flags) => serve::run(context, flags),
    }
}

/// What answers of these commands are, as schemas.
pub(super) fn plan_schema(name: &str) -> String {
    gpuwise_view::scale::plan::schema(name)
}

pub(super) fn replay_schema(name: &str) -> String {
    gpuwise_view::scale::replay::schema(name)
}
