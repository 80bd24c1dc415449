//! TLS: connections are taken on side by side, so that nobody's handshake holds up another's.

use crate::listening::{BoundedListener, BoundedStream};
use axum::serve::Listener as _;
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
    server::TlsStream,
};

/// Where the certificate and its key are, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and an authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities of which a client must show a certificate; `None`: nobody needs to.
    pub clients: Option<PathBuf>,
}

/// Why TLS is not possible with files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{file} cannot be read")]
    Read {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{file} holds no {what} in PEM")]
    Empty { file: String, what: &'static str },
    #[error("{certificate} and {key} do not go together")]
    Unfit {
        certificate: String,
        key: String,
        #[source]
        source: rustls::Error,
    },
}

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Connections whose handshakes are done and that wait to be taken on, at most.
const DONE: usize = 512;

/// How often is looked whether the files are newer: certificates are renewed while we run.
const LOOK: Duration = Duration::from_secs(30);

impl TlsFiles {
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let text = |path: &Path| {
            fs::read(path).map_err(|source| TlsError::Read {
                file: path.display().to_string(),
                source,
            })
        };
        let empty = |path: &Path, what| TlsError::Empty {
            file: path.display().to_string(),
            what,
        };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&text(&self.certificate)?)
                .collect::<Result<_, _>>()
                .map_err(|_| empty(&self.certificate, "certificate"))?;
        if chain.is_empty() {
            return Err(empty(&self.certificate, "certificate"));
        }
        let key = PrivateKeyDer::from_pem_slice(&text(&self.key)?);
        let key = key.map_err(|_| empty(&self.key, "private key"))?;
        let unfit = |source| TlsError::Unfit {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
            source,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?;
        let config = match &self.clients {
            None => config.with_no_client_auth(),
            Some(path) => {
                let authorities =
                    authorities(&text(path)?).ok_or_else(|| empty(path, "certificate"))?;
                let shown = WebPkiClientVerifier::builder_with_provider(authorities, provider);
                let shown = shown
                    .build()
                    .map_err(|_| empty(path, "authority's certificate"))?;
                config.with_client_cert_verifier(shown)
            }
        };
        Ok(Arc::new(
            config.with_single_cert(chain, key).map_err(unfit)?,
        ))
    }

    fn changed(&self) -> Option<(SystemTime, SystemTime)> {
        let of = |path: &Path| fs::metadata(path).ok()?.modified().ok();
        Some((of(&self.certificate)?, of(&self.key)?))
    }
}

/// Certificates of authorities; `None`: there is none.
fn authorities(pem: &[u8]) -> Option<Arc<RootCertStore>> {
    let mut store = RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(pem) {
        store.add(one.ok()?).ok()?;
    }
    (!store.is_empty()).then(|| Arc::new(store))
}

/// Connections whose handshakes are done.
pub(crate) struct Secure {
    done: mpsc::Receiver<(TlsStream<BoundedStream>, SocketAddr)>,
    address: SocketAddr,
}

impl Secure {
    pub(crate) fn new(
        mut listener: BoundedListener,
        files: TlsFiles,
        config: Arc<ServerConfig>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (send, done) = mpsc::channel(DONE);
        let (renew, newest) = watch::channel(config);
        tokio::spawn(renewed(files, renew));
        tokio::spawn(async move {
            loop {
                // How many shake hands is bounded as connections are.
                let (stream, from) = listener.next().await;
                let acceptor = TlsAcceptor::from(Arc::clone(&newest.borrow()));
                let send = send.clone();
                tokio::spawn(async move {
                    if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        // Nobody takes it where the server stops.
                        let _ = send.send((stream, from)).await;
                    }
                });
            }
        });
        Ok(Self { done, address })
    }
}

/// Takes files on that are newer and good; with those that are not it goes on as it was.
async fn renewed(files: TlsFiles, renew: watch::Sender<Arc<ServerConfig>>) {
    let mut known = files.changed();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = files.changed();
        if now != known
            && let Ok(config) = files.config()
        {
            known = now;
            renew.send_replace(config);
        }
    }
}

impl axum::serve::Listener for Secure {
    type Io = TlsStream<BoundedStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.done.recv().await {
            Some(accepted) => accepted,
            // Whoever accepts has ended with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
