//! Stands for what speaks to Kubernetes where that is not built in.

use super::{Context, Exit};
use crate::{error::Problem, settings::FleetImport};

pub(super) fn run(_: &Context, _: &FleetImport) -> anyhow::Result<Exit> {
    Err(
        Problem::new("this gpuwise was built without Kubernetes and cannot ask a cluster")
            .hint("build it with `cargo build --release -p gpuwise --features kubernetes`")
            .hint("or give it what kubectl says: `kubectl get nodes -o json > nodes.json`, `gpuwise fleet import nodes.json`")
            .into(),
    )
}
