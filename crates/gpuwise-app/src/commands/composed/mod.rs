//! `gpuwise composed`: hosts put together from pooled GPUs over a PCIe fabric.

mod compare;
mod replay;
mod show;

use super::{Context, Exit};
use crate::{error::Problem, settings};

pub fn run(context: &Context, flags: &settings::Composed) -> anyhow::Result<Exit> {
    if flags.replay.replay.is_some() {
        return replay::run(context, flags);
    }
    match (&flags.deployment, &flags.fabric) {
        (Some(deployment), Some(fabric)) => {
            compare::run(context, deployment, fabric, flags.explain)
        }
        _ => Err(Problem::new("a deployment and a fabric are needed")
            .hint("gpuwise composed deployment.json --fabric fabric.toml")
            .hint("gpuwise composed --replay openb --trace pods.csv --nodes nodes.csv")
            .into()),
    }
}
