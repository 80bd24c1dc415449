//! Starting and stopping.

mod first;
mod signals;

use crate::{
    clock::Clock,
    collect::{Collect, Collector},
    desk::Desk,
    endpoints::Endpoints,
    executor::{Cutter, Delays, Executor, Local, Simulated},
    gateway,
    http::{self, Shared, TlsError, TlsFiles},
    lead,
    limits::Limits,
    message::Incoming,
    observe::{Lines, Traces},
    oidc::{Oidc, OidcError, OidcSettings},
    replay::Replay,
    standing::{Gate, Stage, Standing},
    token,
    writer::{Stopped, Trouble, Writer},
};
use first::{begin, first_token, happen};
use gpuwise_broker::Broken;
use gpuwise_domain::placement::{Event, Fleet};
use gpuwise_store::{Store, StoreError};
use gpuwise_wire::broker::{BrokerEvent, PolicyDocument};
use signals::signals;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{Arc, RwLock, mpsc},
    thread,
    time::Instant,
};
use tokio::sync::{broadcast, watch};

/// Connections that wait to be taken on at most; the system may allow fewer (net.core.somaxconn).
const QUEUE: i32 = 4096;

/// Events that a follower may be behind before it is told to read them from the log.
const BEHIND: usize = 4096;

/// How a daemon is started.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The database of the log.
    pub store: String,
    /// What there is, for a log that is new; `None`: the log must be there.
    pub fleet: Option<(Fleet, Vec<Event>)>,
    /// By what the scheduler goes; `None`: as before, for a log that is there.
    pub policy: Option<PolicyDocument>,
    /// Whether somebody asked for that policy: else a log that is there keeps its own.
    pub policy_said: bool,
    pub executor: ExecutorKind,
    /// Requests that the tokens of a tenant may make in a second; `None`: no limit.
    pub tenant_requests: Option<u32>,
    /// Simulated seconds in a second.
    pub speed: f64,
    /// Where the first administrator's token goes, by the address that is listened on.
    pub token_file: fn(&Path, SocketAddr) -> PathBuf,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Where traces of leases go (OTLP over HTTP), such as `http://localhost:4318`.
    pub otlp: Option<String>,
    /// Whether each request is said on standard error, as a line of JSON.
    pub lines: bool,
    /// Whose tokens are believed beside our own.
    pub oidc: Option<OidcSettings>,
    /// Where processes of the local executor keep logs and what is known of them.
    pub state: PathBuf,
    /// What cuts the GPUs of this machine; `None`: there is no driver.
    pub driver: Option<Arc<dyn Cutter>>,
    /// How telemetry of services is collected, and what is done with it.
    pub collect: Collect,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExecutorKind {
    Simulated(Delays),
    Local,
}

/// What a daemon says of itself while it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Somebody else writes the log; this one waits for its silence, and says so here.
    Waits { address: SocketAddr, holder: String },
    /// An administrator's token was written to this file.
    Token(PathBuf),
    /// It answers here; so many events of the log were read one by one, the others are in a snapshot.
    Listens {
        address: SocketAddr,
        events: u64,
        read: u64,
        /// Whether by TLS.
        tls: bool,
    },
}

/// Why a daemon could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{address} cannot be listened on")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the log cannot be read back")]
    Broken(#[from] Broken),
    #[error("the log is new, and no fleet was named")]
    NoFleet,
    #[error("the token file {file} cannot be written")]
    Token {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("{what} cannot be started")]
    Thread {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the identity provider cannot be asked")]
    Oidc(#[from] OidcError),
    #[error("TLS is not possible")]
    Tls(#[from] TlsError),
    #[error("the writer ended unexpectedly")]
    Writer,
}

impl From<Stopped> for ServeError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Store(error) => Self::Store(error),
            Stopped::Broken(error) => Self::Broken(error),
        }
    }
}

/// Runs a daemon until it is told to end (SIGINT, SIGTERM), or something ends it. What it says of itself goes to `say`.
///
/// # Errors
/// When it cannot start, or another daemon took over.
pub fn serve(
    settings: Settings,
    desk: Arc<dyn Desk>,
    say: &mut dyn FnMut(Said),
) -> Result<(), ServeError> {
    let (close, closing) = watch::channel(false);
    let close = Arc::new(close);
    signals(Arc::clone(&close)).map_err(thread_of("listening for signals"))?;
    let address = settings.listen;
    let listen = |source| ServeError::Listen { address, source };
    // Before anything else: an address that is taken is said at once.
    let listener = TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    // Who connects while there are many waits for its turn; one that the queue has no room for would try again
    // after a second, and then after three.
    let _ = rustix::net::listen(&listener, QUEUE);
    let address = listener.local_addr().map_err(listen)?;
    let standing = Standing::new();
    let gate = Arc::new(Gate::new(standing.clone()));
    if let Some(files) = &settings.tls {
        // What is wrong with it is said at once, too.
        files.config()?;
    }
    let (behind, told) = (Arc::clone(&gate), closing.clone());
    let tls = settings.tls.clone();
    let answering = thread::Builder::new()
        .name("http".into())
        .spawn(move || http::run(listener, tls, behind, told))
        .map_err(thread_of("the HTTP server"))?;
    let has_tls = settings.tls.is_some();
    let started = start(settings, desk, address, (&gate, &closing), say);
    let writing = match started {
        Ok(Some(started)) => {
            say(Said::Listens {
                address,
                events: started.writer.last,
                read: started.writer.last - started.from,
                tls: has_tls,
            });
            let mut collector = started.collector;
            let collecting = thread::Builder::new()
                .name("telemetry".into())
                .spawn(move || collector.run())
                .map_err(thread_of("collecting telemetry"))?;
            let writing = write(started.writer, Arc::clone(&close))?;
            Some((started.inbox, writing, collecting))
        }
        Ok(None) => None,
        Err(error) => {
            close.send_replace(true);
            // Why it could not start is what matters.
            let _ = answering.join();
            return Err(error);
        }
    };
    // Requests that are open are answered, so that the writer ends after HTTP.
    let answered = answering.join();
    standing.set(Stage::Stops);
    if let Some((inbox, writing, collecting)) = writing {
        // It asks the writer, which ends after it.
        let _ = collecting.join();
        // The writer may have ended by itself.
        let _ = inbox.send(Incoming::Stop);
        writing.join().map_err(|_| ServeError::Writer)??;
    }
    answered.map_err(|_| ServeError::Writer)?
}

fn thread_of(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::Thread { what, source }
}

/// Writes in a thread of its own; when that ends, all ends. The right to write is given back.
fn write(
    mut writer: Writer,
    close: Arc<watch::Sender<bool>>,
) -> Result<thread::JoinHandle<Result<(), Stopped>>, ServeError> {
    let run = move || {
        let result = writer.run();
        close.send_replace(true);
        if result.is_ok() {
            // Where it cannot be given back, others wait for our silence.
            let _ = writer.store.give_back(writer.epoch);
        }
        result
    };
    let writing = thread::Builder::new().name("writer".into()).spawn(run);
    writing.map_err(thread_of("the writer"))
}

/// A daemon whose turn it is to write.
struct Started {
    writer: Writer,
    inbox: mpsc::Sender<Incoming>,
    collector: Collector,
    /// The last event of the snapshot that it began with.
    from: u64,
}

fn executor_of(
    settings: &Settings,
    sender: &mpsc::Sender<Incoming>,
    endpoints: &Endpoints,
) -> Box<dyn Executor> {
    match settings.executor {
        ExecutorKind::Simulated(delays) => Box::new(Simulated::new(delays)),
        ExecutorKind::Local => {
            // Two brokers of a machine, each with its log, know nothing of one another's processes.
            let own = format!("broker-{}", &token::hash(&settings.store)[..8]);
            let place = settings.state.join(own);
            let driver = settings.driver.clone();
            Box::new(Local::new(
                place,
                sender.clone(),
                endpoints.clone(),
                driver,
            ))
        }
    }
}

fn traced(
    settings: &Settings,
    followers: &broadcast::Sender<Arc<gpuwise_store::LogEntry>>,
    shown: &crate::writer::Shown,
) -> Result<Traces, ServeError> {
    let traces = Traces::default();
    if let Some(endpoint) = &settings.otlp {
        let followed = traces.follow(endpoint, Arc::clone(shown), followers.subscribe());
        followed.map_err(thread_of("traces"))?;
    }
    Ok(traces)
}

/// Waits until nobody else writes, reads the log meanwhile, and opens the gate; `None`: it was told to end.
fn start(
    settings: Settings,
    desk: Arc<dyn Desk>,
    address: SocketAddr,
    (gate, closing): (&Gate, &watch::Receiver<bool>),
    say: &mut dyn FnMut(Said),
) -> Result<Option<Started>, ServeError> {
    let oidc = settings.oidc.clone().map(Oidc::new).transpose()?;
    let store = Store::open_durable(&settings.store)?;
    let mut replay = Replay::open(&store)?;
    let taken = lead::take(
        &store,
        &lead::holder(),
        |leader| {
            gate.standing.set(Stage::Waits);
            let holder = leader.holder.clone();
            say(Said::Waits { address, holder });
        },
        || replay.catch_up(&store),
        || *closing.borrow(),
    )?;
    let Some(epoch) = taken else {
        return Ok(None);
    };
    gate.standing.set(Stage::Starts);
    // What the one before wrote last.
    replay.catch_up(&store)?;
    let from = replay.from();
    let (mut ahead, mut last) = match replay.into_state() {
        Some(found) => found,
        None => begin(&store, epoch, &settings)?,
    };
    let clock = Clock::new(ahead.now(), settings.speed);
    if ahead.tokens().next().is_none() {
        let file = (settings.token_file)(&settings.state, address);
        first_token(&store, epoch, &file, &clock, (&mut ahead, &mut last))?;
        say(Said::Token(file));
    }
    let policy = settings
        .policy
        .clone()
        .filter(|policy| settings.policy_said && ahead.policy() != policy);
    if let Some(policy) = policy {
        let set = BrokerEvent::PolicySet { policy };
        happen(&store, epoch, &clock, set, (&mut ahead, &mut last))?;
    }
    let (sender, inbox) = mpsc::channel();
    let shown = Arc::new(RwLock::new(ahead.clone()));
    let (followers, _) = broadcast::channel(BEHIND);
    let endpoints = Endpoints::default();
    let mut executor = executor_of(&settings, &sender, &endpoints);
    executor.adopt(&ahead);
    let traces = traced(&settings, &followers, &shown)?;
    gate.standing.set(Stage::Writes);
    let shared = Arc::new(Shared {
        shown: Arc::clone(&shown),
        inbox: sender.clone(),
        followers: followers.clone(),
        desk: Arc::clone(&desk),
        clock,
        store: settings.store,
        executor: executor.name(),
        logs: executor.logs(),
        endpoints,
        client: gateway::Client::default(),
        traffic: gateway::Traffic::default(),
        standing: gate.standing.clone(),
        oidc,
        began: clock.now(),
        closing: closing.clone(),
        counters: http::Counters::default(),
        limits: Limits::new(settings.tenant_requests),
        reader: http::Reader::default(),
        monitored: http::Monitored::default(),
        lines: Lines(settings.lines),
        traces,
        openapi: http::openapi(),
    });
    gate.open(Arc::clone(&shared));
    let collector = Collector::new(shared, settings.collect);
    let writer = Writer {
        store,
        epoch,
        ahead,
        shown,
        last,
        clock,
        desk,
        executor,
        inbox,
        followers,
        standing: gate.standing.clone(),
        again: Vec::new(),
        trouble: Trouble::None,
        beaten: Instant::now(),
    };
    Ok(Some(Started {
        writer,
        inbox: sender,
        collector,
        from,
    }))
}
