//! A connection within its bounds: it ends where it is closed, and where nothing that it is sent is taken.

use super::{Closed, Connection, connections::Place};
use std::{
    io,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::futures::OwnedNotified,
    time::{Sleep, sleep},
};

/// A connection within its bounds.
#[derive(Debug)]
pub(crate) struct BoundedStream<S = TcpStream> {
    inner: S,
    place: Place,
    closing: Pin<Box<OwnedNotified>>,
    /// Until when something of what is sent must be taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(inner: S, place: Place) -> Self {
        let close = Arc::clone(&place.connection.held.close);
        Self {
            inner,
            place,
            closing: Box::pin(close.notified_owned()),
            stalled: None,
        }
    }

    /// For whoever answers.
    pub(crate) fn connection(&self) -> Connection {
        self.place.connection.clone()
    }

    fn is_closed(&self) -> bool {
        self.place.connection.held.closed.load(Ordering::SeqCst)
    }

    /// What became of writing, which may be without an end for some time only.
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let limit = self.place.connection.bounds.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        if stalled.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.place.count(Closed::Write);
        Poll::Ready(Err(late()))
    }
}

fn late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_closed() || self.closing.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(late()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.place.connection.held.has_read(bytes);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.written(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(context);
        self.written(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_shutdown(context);
        self.written(context, done)
    }
}

impl<S> tonic::transport::server::Connected for BoundedStream<S> {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection()
    }
}
