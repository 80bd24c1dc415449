//! `gpuwise operator why`.

use super::{ClusterFlags, Context, Exit, unread};
use crate::app::Format;
use clap::Args;
use gpuwise_k8s::operator::{self, Why};
use gpuwise_wire::broker::PodWhyAnswer;
use serde_json::to_value;

#[derive(Debug, Args)]
pub struct Flags {
    /// The pod, alone or as NAMESPACE/POD
    #[arg(value_name = "POD")]
    pod: String,
    /// Its namespace
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let (namespace, pod) = flags
        .pod
        .split_once('/')
        .unwrap_or((&flags.namespace, &flags.pod));
    let pod = pod.trim_start_matches("pod/");
    let asked = Why {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
    };
    let found = operator::why(&flags.cluster.connection(), &asked).map_err(unread)?;
    let answer = PodWhyAnswer {
        namespace: asked.namespace,
        pod: asked.pod,
        reason: found.reason,
        node: found.node,
        why: found.words,
        gated: found.gated,
    };
    if context.form.format == Format::Json {
        context.json(&to_value(&answer)?)?;
    } else {
        let gate = if answer.gated { " (gated)" } else { "" };
        context.data(&format!(
            "{}/{}: {}{gate}\n{}\n",
            answer.namespace, answer.pod, answer.reason, answer.why
        ))?;
    }
    Ok(
        if answer.node.is_some() || matches!(answer.reason.as_str(), "NoGpu" | "LeftToScheduler") {
            Exit::Yes
        } else {
            Exit::No
        },
    )
}
