//! Connections, whose bytes are stamped as they are read.

use super::{clock::Clock, failure::Failure, target::Target};
use bytes::Bytes;
use gpuwise_units::Nanoseconds;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

/// How to reach the server.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(crate) clock: Clock,
}

/// When bytes of a connection last came, and when the first ones of a request went.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    read: AtomicU64,
    written: AtomicU64,
}

impl Stamps {
    /// When bytes last came.
    pub(crate) fn read(&self) -> Nanoseconds {
        Nanoseconds(self.read.load(Relaxed))
    }

    /// When the first bytes of the request went; `None`: none did.
    pub(crate) fn written(&self) -> Option<Nanoseconds> {
        Some(Nanoseconds(self.written.load(Relaxed))).filter(|at| at.0 > 0)
    }
}

/// A connection that can take a request.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    pub(crate) stamps: Arc<Stamps>,
    /// How long it took to make.
    pub(crate) took: Nanoseconds,
    /// It has carried a request, so that the server may have closed it since.
    pub(crate) used: bool,
}

impl Link {
    pub(crate) async fn open(route: &Route) -> Result<Self, Failure> {
        let began = route.clock.now();
        let stream = connect(&route.addresses).await?;
        // A request is one packet: it must not wait for the acknowledgement of another.
        stream
            .set_nodelay(true)
            .map_err(|error| Failure::of_connect(&error))?;
        let stamps = Arc::new(Stamps::default());
        let stamped = TimestampedEvent {
            inner: stream,
            clock: route.clock,
            stamps: Arc::clone(&stamps),
        };
        let sender = match &route.tls {
            None => speak(stamped).await?,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let secured = connector
                    .connect(name.clone(), stamped)
                    .await
                    .map_err(|error| Failure::of_tls(&error))?;
                speak(secured).await?
            }
        };
        Ok(Self {
            sender,
            stamps,
            took: Nanoseconds(route.clock.now().0.saturating_sub(began.0)),
            used: false,
        })
    }

    /// Forgets when the bytes of an earlier request went.
    pub(crate) fn begin(&self) {
        self.stamps.written.store(0, Relaxed);
    }
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(Failure::of_connect(&error)),
        }
    }
    Err(last.unwrap_or_else(|| Failure::Unresolved("none was found".into())))
}

async fn speak<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Failure::of_exchange(&error))?;
    // What goes wrong on the connection is told to the request that it carries.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// A stream that remembers when bytes came and went.
#[derive(Debug)]
struct TimestampedEvent {
    inner: TcpStream,
    clock: Clock,
    stamps: Arc<Stamps>,
}

impl AsyncRead for TimestampedEvent {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if polled.is_ready() && buffer.filled().len() > before {
            self.stamps.read.store(self.clock.now().0, Relaxed);
        }
        polled
    }
}

impl AsyncWrite for TimestampedEvent {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let before = self.clock.now();
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if matches!(polled, Poll::Ready(Ok(count)) if count > 0)
            && self.stamps.written.load(Relaxed) == 0
        {
            self.stamps.written.store(before.0.max(1), Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let before = self.clock.now();
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        if matches!(polled, Poll::Ready(Ok(count)) if count > 0)
            && self.stamps.written.load(Relaxed) == 0
        {
            self.stamps.written.store(before.0.max(1), Relaxed);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
