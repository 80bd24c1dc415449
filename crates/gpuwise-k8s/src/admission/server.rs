//! The webhook over HTTPS: handshakes side by side, and a certificate that can be another from one connection
//! to the next.

use super::{WEBHOOK_PATH, review};
use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, watch},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Handshakes at once at most.
const HANDSHAKES: usize = 256;

/// A review with its pod, at most, in bytes: the API server takes objects of 3 MiB.
const BODY: usize = 4 << 20;

/// What the webhook needs to answer.
pub struct Served {
    /// Whether the cluster has a product.
    pub knows: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Told of each answer: whether the pod was gated, and how long that took in seconds.
    pub told: Box<dyn Fn(bool, f64) + Send + Sync>,
}

struct Secure {
    done: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

/// Takes an address, before anything is served there.
///
/// # Errors
/// When it cannot be had.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers for as long as the runtime runs; who connects is shown the newest certificate. Where there is none
/// yet nobody is answered, and the API server goes on without us.
///
/// # Errors
/// When nobody can be answered any more.
pub async fn serve(
    listener: TcpListener,
    newest: watch::Receiver<Option<Arc<ServerConfig>>>,
    served: Served,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let (send, done) = mpsc::channel(HANDSHAKES);
    tokio::spawn(handshakes(listener, newest, send));
    let app = Router::new()
        .route(WEBHOOK_PATH, post(answer))
        .layer(DefaultBodyLimit::max(BODY))
        .with_state(Arc::new(served));
    axum::serve(Secure { done, address }, app).await
}

async fn handshakes(
    listener: TcpListener,
    newest: watch::Receiver<Option<Arc<ServerConfig>>>,
    send: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let open = Arc::new(Semaphore::new(HANDSHAKES));
    while let Ok(permit) = Arc::clone(&open).acquire_owned().await {
        let Ok((stream, from)) = listener.accept().await else {
            // The machine has no more room for connections.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let Some(config) = newest.borrow().clone() else {
            continue;
        };
        let send = send.clone();
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(config);
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // Nobody takes it where the server stops.
                let _ = send.send((stream, from)).await;
            }
            drop(permit);
        });
    }
}

async fn answer(State(served): State<Arc<Served>>, body: Bytes) -> Response {
    let began = std::time::Instant::now();
    let now = crate::operator::now_text();
    let Some(answer) = review(&body, &now, &*served.knows) else {
        return (StatusCode::BAD_REQUEST, "this is no AdmissionReview").into_response();
    };
    let gated = answer["response"].get("patch").is_some();
    (served.told)(gated, began.elapsed().as_secs_f64());
    (
        [(header::CONTENT_TYPE, "application/json")],
        answer.to_string(),
    )
        .into_response()
}

impl axum::serve::Listener for Secure {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.done.recv().await {
            Some(accepted) => accepted,
            // Whoever shakes hands has ended with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
