//! `gpuwise operator`: pods of a Kubernetes cluster, placed by the same kernel.

mod manifests;
#[cfg(feature = "bench")]
mod measure;
mod plan;
mod run;
mod size;
mod top;
mod why;

use super::{
    Context, Exit,
    fleet::{troubled, wrong},
};
use crate::error::Problem;
use clap::{Args, Subcommand};
use gpuwise_k8s::{
    manifests::Mode,
    operator::{Connection, OperatorError},
};
use std::path::PathBuf;

/// What is asked about a cluster.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator, in a cluster or outside
    ///
    /// Several may run: one leads, by a Lease. It answers /healthz, /readyz and /metrics (Prometheus) in plain
    /// HTTP, and with --webhook the API server by TLS, with a certificate that it makes and renews itself.
    ///
    /// Exit code 0: it was stopped. 2: the input is wrong, or there is no cluster.
    Run(Box<run::Flags>),
    /// Print what is to be installed: kubectl apply -f -
    ///
    /// Namespace, definitions of our resources, an account with the least rights that the mode needs, the
    /// operator's Deployment, Service and disruption budget; in mode act the webhook too, which gates GPU pods
    /// of namespaces with the label gpuwise.dev/managed=true and never refuses one.
    ///
    /// To upgrade, apply what the new release prints: definitions come first, and what older ones do not keep the
    /// operator names in its log.
    ///
    /// Exit code 0: printed. 2: the input is wrong.
    Manifests(manifests::Flags),
    /// Say why a pod waits for GPUs, or why it is where it is
    ///
    /// Reads the cluster and decides as the operator does. As `kubectl gpuwise why POD` where the program is
    /// found under the name kubectl-gpuwise.
    ///
    /// Exit code 0: it has a node, or would be placed now. 1: it waits. 2: the input is wrong, or there is no
    /// such pod.
    Why(why::Flags),
    /// Say who holds GPUs of a cluster, who waits for some, and what that costs
    ///
    /// Node by node and workload by workload, by the cluster's GpuPriceBook. Needs to read nodes and pods; what
    /// else it may not read it does without. As `kubectl gpuwise top` where the program is found under the name
    /// kubectl-gpuwise.
    ///
    /// Exit code 0: shown. 2: the input is wrong, or there is no cluster.
    Top(top::Flags),
    /// Plan a GpuWorkload as the operator sizes it, and show what `gpuwise plan` shows
    ///
    /// Of a cluster or of a file; by the GPUs that the nodes have, by the price book, and without what its SLO was
    /// missed on of late. Needs to read nodes, and of our own kinds GpuWorkloads and GpuPriceBooks. As
    /// `kubectl gpuwise plan GPUWORKLOAD` where the program is found under the name kubectl-gpuwise.
    ///
    /// Exit code 0: a GPU keeps the SLO. 1: none does. 2: the input is wrong, or there is no cluster.
    Plan(plan::Flags),
}

/// How the cluster is reached.
#[derive(Debug, Args)]
pub struct ClusterFlags {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the account of the pod it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which of its contexts [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterFlags {
    fn connection(&self) -> Connection {
        Connection {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}

/// How much the operator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeName {
    /// Write nothing but the status of its own objects
    Observe,
    /// Say of pods that wait where they would go, or why they wait
    Propose,
    /// Take gates off pods, name nodes, make what GpuWorkloads ask for
    Act,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Observe => Self::Observe,
            ModeName::Propose => Self::Propose,
            ModeName::Act => Self::Act,
        }
    }
}

/// A cluster that cannot be read, as people read it.
fn unread(error: OperatorError) -> anyhow::Error {
    match error {
        OperatorError::Trouble(trouble) => troubled(&trouble),
        OperatorError::Connect(error) => Problem::of_cluster(&error).into(),
        other => other.into(),
    }
}

pub fn run(context: &Context, command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(flags) => run::run(context, flags),
        Command::Manifests(flags) => manifests::run(context, flags),
        Command::Why(flags) => why::run(context, flags),
        Command::Top(flags) => top::run(context, flags),
        Command::Plan(flags) => plan::run(context, flags),
    }
}
