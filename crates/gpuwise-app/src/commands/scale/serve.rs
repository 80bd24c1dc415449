//! `gpuwise scale serve`: KEDA's external scaler, and external metrics for Kubernetes' own autoscaler.

use super::{Context, Exit, defined::File as Defined};
use crate::{
    error::Problem,
    progress,
    prometheus::{self, ServerFlags},
};
use gpuwise_server::{ScalerError, ScalerSettings, TlsFiles, replayed, scaler};
use gpuwise_units::Nanoseconds;
use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

const SHORTEST: Nanoseconds = Nanoseconds(1_000_000_000);

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Address to listen on; other machines reach it only where this is not a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6000")]
    listen: SocketAddr,
    /// Certificate in PEM, with those between it and an authority: answers by TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities in PEM: who asks must show a certificate of one of them
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Address where Kubernetes is answered about external metrics (external.metrics.k8s.io), by TLS
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tls_cert")]
    external_metrics: Option<SocketAddr>,
    /// Services to watch, as TOML: a file, or a folder of them; read again where it changes
    #[arg(long, value_name = "PATH")]
    services: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
    /// Between two decisions
    #[arg(long, value_name = "TIME", default_value = "5s")]
    period: String,
    /// File to which each decision is added, as a line of JSON
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Decide again what such a file says was decided, and say where that differs; nobody is answered
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "prometheus"])]
    replay: Option<PathBuf>,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if let Some(file) = &flags.replay {
        return replay(context, file);
    }
    let address = flags.server.prometheus.as_deref().ok_or_else(|| {
        Problem::new("nothing says what comes").hint("--prometheus http://prometheus:9090")
    })?;
    let period: Nanoseconds = (flags.period.parse())
        .map_err(|error| Problem::new("--period").because(anyhow::Error::new(error)))?;
    if period < SHORTEST {
        return Err(
            Problem::new(format!("--period {}: expected 1 s or more", flags.period)).into(),
        );
    }
    let client = flags.server.client(address, context.app.offline)?;
    let log = flags.log.as_deref().map(appended).transpose()?;
    let services = flags.services.as_deref().map(Defined::read).transpose()?;
    let settings = ScalerSettings {
        listen: flags.listen,
        external: flags.external_metrics,
        tls: tls(flags),
        services: match services {
            Some(mut file) => Box::new(move || file.newer()),
            None => Box::new(|| None),
        },
        period,
        source: Arc::new(move |query: &str| prometheus::value(&client, query)),
        log: log.map(|file| Box::new(file) as Box<dyn Write + Send>),
    };
    let scheme = if settings.tls.is_some() {
        "TLS"
    } else {
        "no TLS"
    };
    scaler(settings, |at| {
        let keda = at.keda;
        progress::say(&format!("answers KEDA at {keda} ({scheme}), by {address}"));
        if let Some(external) = at.external {
            progress::say(&format!(
                "answers Kubernetes about external metrics at {external}"
            ));
        }
    })
    .map_err(|error| server_problem(&error))?;
    Ok(Exit::Yes)
}

fn tls(flags: &Flags) -> Option<TlsFiles> {
    Some(TlsFiles {
        certificate: flags.tls_cert.clone()?,
        key: flags.tls_key.clone()?,
        clients: flags.client_ca.clone(),
    })
}

/// Why a server of gRPC ended, with its causes.
pub(crate) fn server_problem(error: &ScalerError) -> Problem {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    Problem::new(words)
}

fn appended(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|error| {
        let what = format!("--log: cannot write {}", path.display());
        Problem::new(what).because(error).into()
    })
}

fn replay(context: &Context, file: &Path) -> anyhow::Result<Exit> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("--replay: cannot read {shown}")).because(error))?;
    let (count, differences) =
        replayed(&text).map_err(|why| Problem::new(format!("--replay {shown}: {why}")))?;
    let mut out = format!("{count} decisions, {} differ\n", differences.len());
    for one in &differences {
        let _ = writeln!(out, "line {}: was {}; is {}", one.line, one.was, one.is);
    }
    context.data(&out)?;
    Ok(if differences.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    })
}
