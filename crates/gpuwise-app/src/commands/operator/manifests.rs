//! `gpuwise operator manifests`.

use super::{Context, Exit, ModeName};
use crate::{error::Problem, fetch::collector};
use clap::Args;
use gpuwise_k8s::{
    manifests::{Installation, rights_table},
    resources::reference,
};

#[derive(Debug, Args)]
pub struct Flags {
    /// How much the operator may do
    #[arg(long, value_enum, default_value_t = ModeName::Observe)]
    mode: ModeName,
    /// Namespace of the operator
    #[arg(long, value_name = "NAME", default_value = "gpuwise-system")]
    namespace: String,
    /// Container image of gpuwise
    #[arg(long, value_name = "IMAGE", default_value = concat!("ghcr.io/gpuwise/gpuwise:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// Operators; one leads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=9))]
    replicas: u32,
    /// Where the API server reaches the webhook of an operator outside the cluster, such as https://10.0.0.7:9443
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Prometheus that the operator asks what workloads do
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Collector that the operator tells traces (OTLP over HTTP)
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Print the resources field by field and the rights mode by mode instead, in Markdown
    #[arg(long)]
    reference: bool,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if flags.reference {
        context.data(&format!("{}## Rights\n\n{}", reference(), rights_table()))?;
        return Ok(Exit::Yes);
    }
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if flags.namespace.is_empty()
        || flags.namespace.len() > 63
        || !flags.namespace.chars().all(label)
    {
        return Err(Problem::new(format!(
            "--namespace {:?} is no name of a namespace",
            flags.namespace
        ))
        .hint("lower-case letters, digits and hyphens, at most 63")
        .into());
    }
    if let Some(url) = flags
        .webhook_url
        .as_deref()
        .filter(|url| !url.starts_with("https://"))
    {
        return Err(Problem::new(format!(
            "--webhook-url {url}: the API server speaks TLS alone"
        ))
        .hint("give a URL that begins with https://")
        .into());
    }
    collector(flags.otlp.as_deref())?;
    let installation = Installation {
        namespace: flags.namespace.clone(),
        mode: flags.mode.into(),
        image: flags.image.clone(),
        replicas: flags.replicas,
        webhook_url: flags.webhook_url.clone(),
        prometheus: flags.prometheus.clone(),
        otlp: flags.otlp.clone(),
    };
    context.data(&installation.yaml())?;
    Ok(Exit::Yes)
}
