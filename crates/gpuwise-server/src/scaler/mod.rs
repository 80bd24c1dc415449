//! `gpuwise scale serve`: KEDA's external scaler, and external metrics for Kubernetes' own autoscaler.
//!
//! KEDA asks how many replicas an object is to have, and is told when it is to have none or one; who goes by external
//! metrics asks for the same number. What a trigger or a file says names a query of the rate at which requests come;
//! every period the query is asked, and a controller decides. A source that is silent, or gives what is no rate,
//! changes nothing.

mod external;
mod followed;
mod follows;
mod grpc;
mod idle;
mod log;
mod messages;
mod objects;
mod service;
mod starts;
mod watched;

pub use followed::{Followed, Following};
pub use log::{Difference, replayed};
pub use objects::Defined;

use crate::{
    http::{Secure, TlsError, TlsFiles},
    listening::{BoundedListener, Connections, application},
    stopping,
};
use gpuwise_units::Nanoseconds;
use objects::Objects;
use std::{
    fs, io,
    io::Write,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

/// Gives the value of a query, or says why there is none.
pub(crate) type Source = dyn Fn(&str) -> Result<f64, String> + Send + Sync;

/// Gives services anew where what names them has changed.
pub type Services = dyn FnMut() -> Option<Vec<Defined>> + Send;

/// How KEDA and Kubernetes are answered.
pub struct ScalerSettings {
    pub listen: SocketAddr,
    /// Where `external.metrics.k8s.io` is answered, by TLS.
    pub external: Option<SocketAddr>,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Services that nobody needs to ask about before they are watched.
    pub services: Box<Services>,
    /// Between two decisions.
    pub period: Nanoseconds,
    /// Gives the value of a query, or says why there is none.
    pub source: Arc<Source>,
    /// Where decisions are written, a line of JSON each.
    pub log: Option<Box<dyn Write + Send>>,
}

/// Why KEDA cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ScalerError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot read {file}")]
    File { file: String, source: io::Error },
    #[error("the certificate and its key cannot be used")]
    Tls(#[source] tonic::transport::Error),
    #[error(transparent)]
    Certificate(#[from] TlsError),
    #[error("external metrics are answered by TLS alone: a certificate is missing")]
    Plain,
    #[error("services cannot be taken on: {0}")]
    Services(String),
    #[error("external metrics cannot be answered")]
    External(#[source] io::Error),
    #[error("the gRPC server ended")]
    Server(#[source] tonic::transport::Error),
    #[error("the gRPC server cannot run")]
    Runtime(#[source] io::Error),
}

/// The same certificates as elsewhere: who asks shows one where that is wanted.
pub(crate) fn tls(files: &TlsFiles) -> Result<ServerTlsConfig, ScalerError> {
    let read = |path: &std::path::Path| {
        fs::read(path).map_err(|source| ScalerError::File {
            file: path.display().to_string(),
            source,
        })
    };
    let identity = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    let config = ServerTlsConfig::new().identity(identity);
    Ok(match &files.clients {
        Some(authority) => config.client_ca_root(Certificate::from_pem(read(authority)?)),
        None => config,
    })
}

pub(crate) fn listener(address: SocketAddr) -> Result<TcpListener, ScalerError> {
    let bound = |source| ScalerError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    Ok(listener)
}

/// The present moment, to the second.
fn now() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Where KEDA and Kubernetes are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    pub keda: SocketAddr,
    pub external: Option<SocketAddr>,
}

/// Answers until the process is told to end; `listening` is told where.
///
/// # Errors
/// When nobody can be listened to.
pub fn scaler(
    mut settings: ScalerSettings,
    listening: impl FnOnce(Listening),
) -> Result<(), ScalerError> {
    let keda = listener(settings.listen)?;
    let external = settings.external.map(listener).transpose()?;
    let address = |listener: &TcpListener| listener.local_addr().map_err(ScalerError::Runtime);
    let at = Listening {
        keda: address(&keda)?,
        external: external.as_ref().map(address).transpose()?,
    };
    let mut server = Server::builder();
    if let Some(files) = &settings.tls {
        server = server.tls_config(tls(files)?).map_err(ScalerError::Tls)?;
    }
    let secure = match (&external, &settings.tls) {
        (None, _) => None,
        (Some(_), None) => return Err(ScalerError::Plain),
        (Some(_), Some(files)) => Some((files.clone(), files.config()?)),
    };
    let objects = Arc::new(Objects::new(settings.source, settings.period, settings.log));
    if let Some(services) = (settings.services)() {
        let taken = objects.define(services);
        taken.map_err(|why| ScalerError::Services(why.to_string()))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ScalerError::Runtime)?;
    let period = Duration::from_nanos(settings.period.0);
    let ended = runtime.block_on(async move {
        let told = stopping::told().map_err(ScalerError::Runtime)?;
        let runs = ScalerError::Runtime;
        let keda = tokio::net::TcpListener::from_std(keda).map_err(runs)?;
        let connections = Connections::default();
        let incoming = BoundedListener::streams(keda, &connections);
        let metrics = external.zip(secure).map(|(external, (files, config))| {
            let external = tokio::net::TcpListener::from_std(external)?;
            let external = BoundedListener::new(external, &connections);
            Secure::new(external, files, config)
        });
        let metrics = metrics.transpose().map_err(runs)?;
        let app = external::router(Arc::clone(&objects));
        listening(at);
        let scaler = grpc::Scaler {
            objects: Arc::clone(&objects),
        };
        tokio::spawn(ticks(objects, period, settings.services));
        let serving = server.add_service(scaler).serve_with_incoming(incoming);
        let answering = async move {
            match metrics {
                Some(listener) => axum::serve(listener, application(app)).await,
                None => std::future::pending().await,
            }
        };
        // Streams stay open for as long as KEDA runs: they are not waited for.
        tokio::select! {
            result = serving => result.map_err(ScalerError::Server),
            result = answering => result.map_err(ScalerError::External),
            () = told => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Looks at all objects every period, and at what names them.
async fn ticks(objects: Arc<Objects>, period: Duration, mut services: Box<Services>) {
    let mut due = tokio::time::interval(period);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let objects = Arc::clone(&objects);
        let looked = tokio::task::spawn_blocking(move || {
            if let Some(services) = services() {
                // More than can be watched: what was watched before is.
                let _ = objects.define(services);
            }
            objects.tick();
            services
        });
        services = match looked.await {
            Ok(services) => services,
            // The runtime ends.
            Err(_) => return,
        };
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests;
