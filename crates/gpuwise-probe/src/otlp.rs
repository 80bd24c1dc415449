//! A receiver of OTLP over HTTP: takes what is posted to `/v1/metrics`, from several senders at once, and
//! answers as OTLP's specification says. What bodies mean is its caller's to decide.

mod answer;
mod request;

use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tokio::sync::Semaphore;

/// How a body is written, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `application/json`.
    Json,
    /// `application/x-protobuf`.
    Protobuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<T> {
    pub value: T,
    /// How many of its data points are not taken, which the sender is told.
    pub rejected: u64,
}

/// What senders may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Senders that are answered at once; others wait until they are connected.
    pub senders: usize,
    /// How long a request's head, and then its body, may take.
    pub patience: Duration,
    /// Bytes of a body, packed and unpacked.
    pub body: usize,
}

impl Default for Limits {
    /// Exporters send some kilobytes every few seconds, and give up after ten (`OTEL_EXPORTER_OTLP_TIMEOUT`).
    fn default() -> Self {
        Self {
            senders: 64,
            patience: Duration::from_secs(10),
            body: 4 << 20,
        }
    }
}

/// Requests that wait to be taken; older ones are dropped, for the newest values count.
const MOST_WAITING: usize = 256;
/// Bytes of a request's head.
const LARGEST_HEAD: usize = 16 << 10;
/// How long one connection is kept, however well it behaves: then its sender opens another.
const LONGEST: Duration = Duration::from_mins(10);

/// Reads a body; what is wrong with it is told to its sender.
type Decode<T> = dyn Fn(Form, &[u8]) -> Result<Decoded<T>, String> + Send + Sync;

struct Shared<T> {
    decode: Box<Decode<T>>,
    waiting: Mutex<VecDeque<T>>,
    limits: Limits,
}

impl<T> Shared<T> {
    fn keep(&self, value: T) {
        if let Ok(mut waiting) = self.waiting.lock() {
            if waiting.len() >= MOST_WAITING {
                waiting.pop_front();
            }
            waiting.push_back(value);
        }
    }
}

/// Listens on one address until the process ends.
pub struct Receiver<T> {
    address: SocketAddr,
    shared: Arc<Shared<T>>,
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, form: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        form.debug_struct("Receiver")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Receiver<T> {
    /// Opens an address such as `127.0.0.1:4318`; bodies are read by `decode`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(
        address: &str,
        limits: Limits,
        decode: impl Fn(Form, &[u8]) -> Result<Decoded<T>, String> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            decode: Box::new(decode),
            waiting: Mutex::new(VecDeque::new()),
            limits,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let served = Arc::clone(&shared);
        thread::Builder::new().name("otlp".into()).spawn(move || {
            runtime.block_on(serve(listener, served));
        })?;
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came since the last call, oldest first.
    pub fn taken(&self) -> Vec<T> {
        let waiting = self.shared.waiting.lock();
        waiting
            .map(|mut waiting| waiting.drain(..).collect())
            .unwrap_or_default()
    }
}

async fn serve<T: Send + 'static>(listener: TcpListener, shared: Arc<Shared<T>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let places = Arc::new(Semaphore::new(shared.limits.senders.max(1)));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, or the sender left: others may be served a moment later.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _place = place;
            let patience = shared.limits.patience;
            let service = service_fn(|request: Request<Incoming>| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, std::convert::Infallible>(answer::of(&shared, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(patience)
                .max_buf_size(LARGEST_HEAD)
                .serve_connection(TokioIo::new(stream), service);
            // One bad sender must neither end the receiver nor hold it up.
            let _ = tokio::time::timeout(LONGEST, connection).await;
        });
    }
}
