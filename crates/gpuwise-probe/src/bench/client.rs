//! Connections of one thread, and single requests over them.

use super::{
    body::Bodies,
    chunk,
    failure::Failure,
    link::{Link, Route},
    target::Secret,
};
use bytes::Bytes;
use gpuwise_units::Nanoseconds;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Errors of servers are read up to this many bytes.
const LARGEST_ERROR: usize = 64 << 10;
/// And answers that are no stream up to this many.
pub(crate) const LARGEST_ANSWER: usize = 64 << 20;
/// An error's text is waited for so long.
const PATIENCE_WITH_ERRORS: Duration = Duration::from_secs(5);
/// Connections that are made at once beside those that requests make for themselves.
const MADE_AT_ONCE: usize = 16;

/// What all requests of a thread share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) route: Route,
    pub(crate) key: Option<Secret>,
    /// Connections that carry nothing now.
    idle: Mutex<Vec<Link>>,
    /// Connections that are being made to be idle.
    opening: AtomicUsize,
    /// Connections that are kept idle, so that a request need not wait for one to be made.
    pub(crate) spare: usize,
    /// Connections made so far.
    pub(crate) opened: AtomicUsize,
}

impl Client {
    pub(crate) fn new(route: Route, key: Option<Secret>, spare: usize) -> Self {
        Self {
            route,
            key,
            idle: Mutex::default(),
            opening: AtomicUsize::new(0),
            spare,
            opened: AtomicUsize::new(0),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection and keeps it.
    pub(crate) async fn open_idle(&self) -> Result<(), Failure> {
        let link = self.open().await?;
        self.idle().push(link);
        Ok(())
    }

    async fn open(&self) -> Result<Link, Failure> {
        let link = Link::open(&self.route).await?;
        self.opened.fetch_add(1, Relaxed);
        Ok(link)
    }

    /// A connection, and how long it took to make where none was idle.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<(Link, Option<Nanoseconds>), Failure> {
        let found = loop {
            let popped = self.idle().pop();
            match popped {
                Some(link) if link.sender.is_closed() => {}
                other => break other,
            }
        };
        self.replenish();
        if let Some(link) = found {
            return Ok((link, None));
        }
        let link = self.open().await?;
        let took = link.took;
        Ok((link, Some(took)))
    }

    /// Makes connections beforehand where few are idle.
    fn replenish(self: &Arc<Self>) {
        let idle = self.idle().len();
        let opening = self.opening.load(Relaxed);
        if idle + opening < self.spare && opening < MADE_AT_ONCE {
            self.opening.fetch_add(1, Relaxed);
            let client = Arc::clone(self);
            tokio::spawn(async move {
                // A request that needs a connection will say why there is none.
                let _ = client.open_idle().await;
                client.opening.fetch_sub(1, Relaxed);
            });
        }
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn keep(&self, mut link: Link) {
        if !link.sender.is_closed() {
            link.used = true;
            self.idle().push(link);
        }
    }

    /// Sends a request over a connection; its head, once it is there.
    pub(crate) async fn send(
        &self,
        link: &mut Link,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, hyper::Error> {
        link.begin();
        link.sender.ready().await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        if let Ok(uri) = path.parse() {
            *request.uri_mut() = uri;
        }
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&self.route.target.authority) {
            headers.insert(header::HOST, host);
        }
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream, application/json"),
        );
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("gpuwise/", env!("CARGO_PKG_VERSION"))),
        );
        if let Some(key) = self.key.as_ref().and_then(Secret::header) {
            headers.insert(header::AUTHORIZATION, key);
        }
        link.sender.send_request(request).await
    }

    /// What an answer with another status than 200 means; keeps its connection if it can.
    pub(crate) async fn refusal(&self, link: Link, response: Response<Incoming>) -> Failure {
        let status = response.status();
        let header = |name| {
            let value: Option<&HeaderValue> = response.headers().get(name);
            value
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let location = header(header::LOCATION);
        let retry_after = header(header::RETRY_AFTER);
        let body = Limited::new(response.into_body(), LARGEST_ERROR).collect();
        let text = match tokio::time::timeout(PATIENCE_WITH_ERRORS, body).await {
            Ok(Ok(body)) => {
                self.keep(link);
                chunk::error_message(&body.to_bytes())
            }
            _ => String::new(),
        };
        let text = if text.is_empty() {
            status
                .canonical_reason()
                .unwrap_or("no reason given")
                .to_owned()
        } else {
            text
        };
        let location = location.map(|location| self.without_key(&location));
        Failure::of_status(
            status.as_u16(),
            location.as_deref(),
            retry_after.as_deref(),
            self.without_key(&text),
        )
    }

    /// A server's text without the key, should it repeat it.
    pub(crate) fn without_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => key.taken_out_of(text),
            None => text.to_owned(),
        }
    }

    /// Asks for a document beside the interfaces.
    pub(crate) async fn document(
        self: &Arc<Self>,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let (mut link, _) = self.link().await?;
        let response = self
            .send(&mut link, method, path, body)
            .await
            .map_err(|error| Failure::of_exchange(&error))?;
        if response.status() != StatusCode::OK {
            return Err(self.refusal(link, response).await);
        }
        let body = Limited::new(response.into_body(), LARGEST_ANSWER)
            .collect()
            .await
            .map_err(|_| Failure::CutOff)?;
        self.keep(link);
        Ok(body.to_bytes())
    }
}

/// What every request of a run shares.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) bodies: Bodies,
    pub(crate) path: String,
    pub(crate) timeout: Duration,
    /// Sends again what the server was too full for, when it says.
    pub(crate) retry_after: bool,
}
