//! `gpuwise composed`: hosts put together from pooled GPUs over a PCIe fabric.

mod compare;
mod replay;
mod show;

use super::{Answer, Context};
use crate::{cli, error::Problem};

pub(crate) fn run(context: &Context, flags: &cli::Composed) -> anyhow::Result<Answer> {
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
