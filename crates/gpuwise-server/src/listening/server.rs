//! Listeners whose connections are bounded, for HTTP and for gRPC, and who tells them where requests are.

use super::{BoundedStream, Connection, Connections, Serving};
use crate::http::Secure;
use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{
        ConnectInfo, Request,
        connect_info::{Connected, IntoMakeServiceWithConnectInfo},
    },
    http::Extensions,
    middleware::{self, Next},
    response::Response,
    serve::{IncomingStream, Listener},
};
use http_body::{Frame, SizeHint};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tonic::transport::server::TlsConnectInfo;

/// What is answered where there is no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 1\r\n\
    connection: close\r\ncontent-length: 40\r\n\r\nthere are as many connections as may be\n";

/// Between two tries where the machine has no room for a connection.
const AGAIN: Duration = Duration::from_millis(50);

/// Listens, within bounds.
#[derive(Debug)]
pub(crate) struct BoundedListener {
    listener: TcpListener,
    connections: Connections,
    /// Whether its connections carry requests side by side.
    streams: bool,
}

impl BoundedListener {
    /// For HTTP; [`application`] is what is served. Within a runtime.
    pub(crate) fn new(listener: TcpListener, connections: &Connections) -> Self {
        connections.sweeps();
        Self {
            listener,
            connections: connections.clone(),
            streams: false,
        }
    }

    /// For gRPC.
    pub(crate) fn streams(
        listener: TcpListener,
        connections: &Connections,
    ) -> impl Stream<Item = io::Result<BoundedStream>> + use<> {
        let mut own = Self::new(listener, connections);
        own.streams = true;
        let (send, receive) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let (stream, _) = own.next().await;
                // The server has ended.
                if send.send(Ok(stream)).await.is_err() {
                    return;
                }
            }
        });
        tokio_stream::wrappers::ReceiverStream::new(receive)
    }

    pub(crate) async fn next(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => {
                    // Pieces of an answer are not held back for one another.
                    let _ = stream.set_nodelay(true);
                    if let Some(place) = self.connections.admit(from.ip(), self.streams) {
                        return (BoundedStream::new(stream, place), from);
                    }
                    if !self.streams {
                        // Whoever does not hear it finds the connection closed.
                        let _ = stream.try_write(FULL);
                    }
                }
                Err(error) if is_of_one(&error) => {}
                Err(_) => {
                    self.connections.one_less();
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Whether an error is of the connection that was taken on, and of no other.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        self.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        stream.io().connection()
    }
}

impl Connected<IncomingStream<'_, Secure>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Secure>) -> Self {
        stream.io().get_ref().0.connection()
    }
}

/// A call by gRPC that is being answered: its connection serves for as long as what is returned is there.
pub(crate) fn serving(extensions: &Extensions) -> Option<Serving> {
    let plain = extensions.get::<Connection>();
    let connection = plain.or_else(|| {
        let secure = extensions.get::<TlsConnectInfo<Connection>>()?;
        Some(secure.get_ref())
    });
    Some(connection?.serves())
}

/// What is served on a [`BoundedListener`]: connections are told when requests are whole, and when they are answered.
pub(crate) fn application(router: Router) -> IntoMakeServiceWithConnectInfo<Router, Connection> {
    router
        .layer(middleware::from_fn(within))
        .into_make_service_with_connect_info::<Connection>()
}

async fn within(mut request: Request, next: Next) -> Response {
    let info = request.extensions().get::<ConnectInfo<Connection>>();
    let Some(ConnectInfo(connection)) = info.cloned() else {
        return next.run(request).await;
    };
    let (told, whole) = tokio::sync::oneshot::channel();
    let mut serving = None;
    if request.body().is_end_stream() {
        serving = Some(connection.serves());
    } else {
        connection.body();
        let (parts, body) = request.into_parts();
        let coming = Coming {
            body,
            connection: connection.clone(),
            told: Some(told),
        };
        request = Request::from_parts(parts, Body::new(coming));
    }
    let response = next.run(request).await;
    let serving = serving.or_else(|| {
        let mut whole = whole;
        whole.try_recv().ok()
    });
    let serving = serving.unwrap_or_else(|| connection.serves());
    response.map(|body| {
        Body::new(Answering {
            body,
            _serving: serving,
        })
    })
}

/// The body of a request, which tells when it is whole.
struct Coming {
    body: Body,
    connection: Connection,
    told: Option<tokio::sync::oneshot::Sender<Serving>>,
}

impl Coming {
    fn whole(&mut self) {
        if let Some(told) = self.told.take() {
            // Whoever answers has gone already.
            let _ = told.send(self.connection.serves());
        }
    }
}

impl HttpBody for Coming {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let last = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            _ => false,
        };
        if last {
            self.whole();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer: while it is there, its connection serves.
struct Answering {
    body: Body,
    _serving: Serving,
}

impl HttpBody for Answering {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
