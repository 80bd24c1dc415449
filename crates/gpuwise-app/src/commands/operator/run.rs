//! `gpuwise operator run`.

use super::{ClusterFlags, Context, Exit, ModeName, size::Planner, unread};
use crate::{catalogue, error::Problem, fetch::collector, names, progress};
use clap::Args;
use gpuwise_k8s::operator::{self, Boards, Journal, Settings};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// How much it may do
    #[arg(long, value_enum, default_value_t = ModeName::Observe)]
    mode: ModeName,
    /// Namespace of its Lease and its Secret
    #[arg(long, value_name = "NAME", default_value = "gpuwise-system")]
    namespace: String,
    /// Address where it answers /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address where the API server asks about new pods, by TLS; needs --mode act
    #[arg(long, value_name = "ADDRESS:PORT")]
    webhook: Option<SocketAddr>,
    /// Other names by which the API server reaches it
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "webhook")]
    webhook_name: Vec<String>,
    /// Days for which a certificate of the webhook is good; it is renewed after two thirds of them
    #[arg(long, value_name = "DAYS", default_value = "90")]
    certificate_days: f64,
    /// As whom it leads [default: $POD_NAME, or the host and the process]
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Seconds after which another leads where nobody renews the lease
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=600))]
    lease: u64,
    /// Where KEDA, or for external metrics the API server, reaches `gpuwise scale serve`, of GpuWorkloads that ask to be
    /// scaled so [default: gpuwise-scaler.gpuwise-system.svc, port 6000, or 6443]
    #[arg(long, value_name = "ADDRESS:PORT")]
    scaler: Option<String>,
    /// Collector that gets a trace from each object to its pods' processes by OTLP over HTTP, such as
    /// http://localhost:4318
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    otlp: Option<String>,
    #[cfg(feature = "bench")]
    #[command(flatten)]
    measured: super::measure::MeasureFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if flags.webhook.is_some() && flags.mode != ModeName::Act {
        return Err(
            Problem::new("--webhook gates pods, and only --mode act takes gates off")
                .hint("say --mode act, or leave --webhook out")
                .into(),
        );
    }
    let days = flags.certificate_days;
    if !(days > 0.0 && days <= 3650.0) {
        return Err(Problem::new(format!(
            "--certificate-days {days}: expected more than 0, at most 3650"
        ))
        .into());
    }
    collector(flags.otlp.as_deref())?;
    let mut names = flags.webhook_name.clone();
    if let Some(address) = flags.webhook {
        let own: IpAddr = address.ip();
        if !own.is_unspecified() {
            names.push(own.to_string());
        }
    }
    let settings = Settings {
        connection: flags.cluster.connection(),
        namespace: flags.namespace.clone(),
        mode: flags.mode.into(),
        listen: flags.listen,
        webhook: flags.webhook,
        webhook_names: names,
        certificate: Duration::from_secs_f64(days * 86_400.0),
        identity: flags.identity.clone().unwrap_or_else(identity),
        lease: Duration::from_secs(flags.lease),
        journal: Arc::new(Journal::new(Box::new(progress::say))),
        sizer: Some(Arc::new(Planner::new(&context.app, flags.scaler.clone()))),
        #[cfg(feature = "bench")]
        measures: flags.measured.measures(&context.app)?,
        #[cfg(not(feature = "bench"))]
        measures: None,
        #[cfg(feature = "serve")]
        sleeper: Some(Arc::new(Engines)),
        #[cfg(not(feature = "serve"))]
        sleeper: None,
        otlp: flags.otlp.clone(),
        boards: boards(context)?,
    };
    operator::run(settings, |address| {
        progress::say(&format!("answering health and figures at http://{address}"));
    })
    .map_err(unread)?;
    Ok(Exit::Yes)
}

/// Engines of warm pods, by the endpoints of vLLM.
#[cfg(feature = "serve")]
struct Engines;

#[cfg(feature = "serve")]
impl operator::Sleeper for Engines {
    fn sleep(&self, at: SocketAddr) -> Result<(), String> {
        gpuwise_server::EngineAt(at).sleep(1)
    }

    fn wake(&self, at: SocketAddr) -> Result<(), String> {
        gpuwise_server::EngineAt(at).wake("/health", || false)
    }
}

/// What GPUs can be cut into, by the catalogue.
fn boards(context: &Context) -> anyhow::Result<Boards> {
    let catalogue = catalogue::load(&context.app.overrides)?.catalogue;
    Ok(Arc::new(move |product| {
        let gpu = names::gpu(&catalogue, "GPU", product).ok();
        let geometry = gpu.and_then(|gpu| catalogue.mig_geometry(gpu));
        let shapes = geometry.iter().flat_map(|geometry| &geometry.shapes);
        // Resources spell `1g.10gb+me` with a dot.
        shapes
            .map(|shape| (shape.profile.replace('+', "."), u32::from(shape.most)))
            .collect()
    }))
}

/// A name that no other operator has: of the pod, or of the host with the process.
fn identity() -> String {
    let pod = std::env::var("POD_NAME")
        .ok()
        .filter(|name| !name.is_empty());
    pod.unwrap_or_else(|| {
        let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let host = host.trim();
        let host = if host.is_empty() { "host" } else { host };
        let began = jiff::Timestamp::now().as_millisecond();
        format!("{host}_{}_{began}", std::process::id())
    })
}
