//! `gpuwise scale serve`: KEDA's external scaler.
//!
//! KEDA asks how many replicas an object is to have, and is told when it is to have none or one. What its trigger
//! says names a query of the rate at which requests come; every period the query is asked, and a controller decides.
//! A source that is silent, or gives what is no rate, changes nothing.

mod grpc;
mod log;
mod messages;
mod objects;
mod service;

pub use log::{Difference, replayed};

use crate::{http::TlsFiles, stopping};
use gpuwise_units::Nanoseconds;
use objects::Objects;
use std::{
    fs, io,
    io::Write,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use tonic::transport::{Identity, Server, ServerTlsConfig, server::TcpIncoming};

/// Gives the value of a query, or says why there is none.
pub(crate) type Source = dyn Fn(&str) -> Result<f64, String> + Send + Sync;

/// How KEDA is answered.
pub struct ScalerSettings {
    pub listen: SocketAddr,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<TlsFiles>,
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
    #[error("the gRPC server ended")]
    Server(#[source] tonic::transport::Error),
    #[error("the gRPC server cannot run")]
    Runtime(#[source] io::Error),
}

fn identity(files: &TlsFiles) -> Result<Identity, ScalerError> {
    let read = |path: &std::path::Path| {
        fs::read(path).map_err(|source| ScalerError::File {
            file: path.display().to_string(),
            source,
        })
    };
    Ok(Identity::from_pem(
        read(&files.certificate)?,
        read(&files.key)?,
    ))
}

/// Answers until the process is told to end; `listening` is told where.
///
/// # Errors
/// When nobody can be listened to.
pub fn scaler(
    settings: ScalerSettings,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), ScalerError> {
    let address = settings.listen;
    let bound = |source| ScalerError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(bound)?;
    listener.set_nonblocking(true).map_err(bound)?;
    let at = listener.local_addr().map_err(bound)?;
    let mut server = Server::builder();
    if let Some(files) = &settings.tls {
        let config = ServerTlsConfig::new().identity(identity(files)?);
        server = server.tls_config(config).map_err(ScalerError::Tls)?;
    }
    let objects = Arc::new(Objects::new(settings.source, settings.period, settings.log));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ScalerError::Runtime)?;
    let scaler = grpc::Scaler {
        objects: Arc::clone(&objects),
    };
    let period = Duration::from_nanos(settings.period.0);
    let ended = runtime.block_on(async move {
        let told = stopping::told().map_err(ScalerError::Runtime)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(bound)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        listening(at);
        tokio::spawn(async move {
            let mut due = tokio::time::interval(period);
            due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                due.tick().await;
                let objects = Arc::clone(&objects);
                let _ = tokio::task::spawn_blocking(move || objects.tick()).await;
            }
        });
        let serving = server.add_service(scaler).serve_with_incoming(incoming);
        // Streams stay open for as long as KEDA runs: they are not waited for.
        tokio::select! {
            result = serving => result.map_err(ScalerError::Server),
            () = told => Ok(()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests;
