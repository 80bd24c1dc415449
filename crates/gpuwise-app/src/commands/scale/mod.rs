//! `gpuwise scale`: replicas that follow demand.

mod plan;
mod replay;
mod service;

use super::{Context, Exit};

/// What is asked about scaling.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run autoscalers beside one another on the same demand
    ///
    /// A service as a flow: demand in, replicas that serve at a rate and take a while to start. Published autoscalers
    /// (Kubernetes' HPA, KEDA, Knative's KPA, Dynamo's planner, llm-d's WVA, a trend) try sixteen targets each, and
    /// the cheapest that keeps the objective is shown; ours is told the objective alone. `perfect` knows the rate
    /// that comes, and `static` never changes. The same seed gives the same answer.
    ///
    /// Exit code 0: replayed. 2: the input is wrong.
    Replay(replay::Flags),
    /// Say how a saved deployment is to follow demand, and what that costs
    ///
    /// The rate of a replica is what the deployment sustains within its SLO. How long a replica takes to start is
    /// found from the bytes of its weights and published times of the stages before and after, unless --start says
    /// it. What is said of ours beside static and the usual autoscaler is of a replay of this demand.
    ///
    /// Exit code 0: planned. 1: the objective cannot be kept. 2: the input is wrong.
    Plan(Box<plan::Flags>),
}

pub fn run(context: &Context, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Replay(flags) => replay::run(context, flags),
        Command::Plan(flags) => plan::run(context, flags),
    }
}

/// What answers of these commands are, as schemas.
pub(super) fn plan_schema(name: &str) -> String {
    gpuwise_view::scale::plan::schema(name)
}

pub(super) fn replay_schema(name: &str) -> String {
    gpuwise_view::scale::replay::schema(name)
}
