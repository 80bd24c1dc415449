//! Starting and stopping.

use crate::{
    clock::Clock,
    desk::Desk,
    executor::{Delays, Executor, Local, Simulated},
    http::{self, Shared},
    lead,
    message::Incoming,
    token,
    writer::{Stopped, Writer, entry, rebuild},
};
use gpuwise_broker::{Broken, Broker};
use gpuwise_domain::placement::{Event, Fleet};
use gpuwise_store::{Store, StoreError};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent, PolicyDocument, Role, TokenDocument},
    live::{EventDocument, FleetDocument},
};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};
use tokio::sync::{broadcast, watch};

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
    pub executor: ExecutorKind,
    /// Simulated seconds in a second.
    pub speed: f64,
    /// Where the first administrator's token goes, by the address that is listened on.
    pub token_file: fn(&Path, SocketAddr) -> PathBuf,
    /// Where processes of the local executor keep logs and what is known of them.
    pub state: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExecutorKind {
    Simulated(Delays),
    Local,
}

/// What a daemon says of itself while it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Somebody else writes the log; this one waits for its silence.
    Waits { holder: String },
    /// An administrator's token was written to this file.
    Token(PathBuf),
    /// It answers here.
    Listens { address: SocketAddr, events: u64 },
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
/// When it cannot start, the database refuses for good, or another daemon took over.
pub fn serve(
    settings: Settings,
    desk: Arc<dyn Desk>,
    say: &mut dyn FnMut(Said),
) -> Result<(), ServeError> {
    let stop = signals().map_err(|source| ServeError::Thread {
        what: "listening for signals",
        source,
    })?;
    let address = settings.listen;
    let listen = |source| ServeError::Listen { address, source };
    // Before anything else: an address that is taken is said at once.
    let listener = TcpListener::bind(address).map_err(listen)?;
    listener.set_nonblocking(true).map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let store = Store::open_durable(&settings.store)?;
    let holder = lead::holder();
    let stopped = || *stop.borrow();
    let waits = |leader: &gpuwise_store::Leader| {
        say(Said::Waits {
            holder: leader.holder.clone(),
        });
    };
    let Some(epoch) = lead::take(&store, &holder, waits, stopped)? else {
        return Ok(());
    };
    let (mut ahead, mut last) = match rebuild(&store)? {
        Some(found) => found,
        None => begin(&store, epoch, &settings)?,
    };
    let clock = Clock::new(ahead.now(), settings.speed);
    if ahead.tokens().next().is_none() {
        let file = (settings.token_file)(&settings.state, address);
        first_token(&store, epoch, &file, &clock, (&mut ahead, &mut last))?;
        say(Said::Token(file));
    }
    if let Some(policy) = settings.policy.clone()
        && *ahead.policy() != policy
    {
        let set = BrokerEvent::PolicySet { policy };
        happen(&store, epoch, &clock, set, (&mut ahead, &mut last))?;
    }
    let (sender, inbox) = mpsc::channel();
    let shown = Arc::new(RwLock::new(ahead.clone()));
    let (followers, _) = broadcast::channel(BEHIND);
    let executor: Box<dyn Executor> = match settings.executor {
        ExecutorKind::Simulated(delays) => Box::new(Simulated::new(delays)),
        ExecutorKind::Local => Box::new(Local::new(settings.state.clone(), sender.clone())),
    };
    let shared = Arc::new(Shared {
        shown: Arc::clone(&shown),
        inbox: sender.clone(),
        followers: followers.clone(),
        desk: Arc::clone(&desk),
        clock,
        store: settings.store.clone(),
        executor: executor.name(),
        ready: AtomicBool::new(true),
        counters: http::Counters::default(),
        openapi: http::openapi(),
    });
    let mut writer = Writer {
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
    };
    let (ended, writer_ended) = watch::channel(false);
    let writing = thread::Builder::new()
        .name("writer".into())
        .spawn(move || {
            let result = writer.run();
            // The others may be gone already.
            let _ = ended.send(true);
            result
        })
        .map_err(|source| ServeError::Thread {
            what: "the writer",
            source,
        })?;
    say(Said::Listens {
        address,
        events: last,
    });
    http::run(listener, Arc::clone(&shared), stop, writer_ended)?;
    shared.ready.store(false, Ordering::Relaxed);
    // The writer may have ended by itself.
    let _ = sender.send(Incoming::Stop);
    match writing.join() {
        Ok(result) => Ok(result?),
        Err(_) => Err(ServeError::Writer),
    }
}

/// Becomes true when the daemon is told to end.
fn signals() -> io::Result<watch::Receiver<bool>> {
    let (told, stop) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let ended = runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let (mut first, mut second) = (
                    signal(SignalKind::interrupt())?,
                    signal(SignalKind::terminate())?,
                );
                tokio::select! {
                    _ = first.recv() => {}
                    _ = second.recv() => {}
                }
                io::Result::Ok(())
            });
            // Without signals it can be ended by force alone.
            if ended.is_ok() {
                let _ = told.send(true);
            }
        })?;
    Ok(stop)
}

/// The first event of a new log.
fn begin(
    store: &Store,
    epoch: gpuwise_store::Epoch,
    settings: &Settings,
) -> Result<(Broker, u64), ServeError> {
    let (fleet, present) = settings.fleet.as_ref().ok_or(ServeError::NoFleet)?;
    let clock = Clock::new(gpuwise_units::Nanoseconds(0), 1.0);
    let first = LoggedEvent {
        at_ns: clock.now().0,
        event: BrokerEvent::Began {
            fleet: FleetDocument::of(fleet),
            present: present.iter().map(EventDocument::of).collect(),
            policy: settings.policy.clone().ok_or(ServeError::NoFleet)?,
        },
    };
    let broker = Broker::begin(&first)?;
    store.append(epoch, &[entry(1, &first)])?;
    Ok((broker, 1))
}

/// Lets the first administrator in.
fn first_token(
    store: &Store,
    epoch: gpuwise_store::Epoch,
    path: &Path,
    clock: &Clock,
    (broker, last): (&mut Broker, &mut u64),
) -> Result<(), ServeError> {
    let file = |source| ServeError::Token {
        file: path.display().to_string(),
        source,
    };
    let secret = token::draw().map_err(file)?;
    token::keep(path, &secret).map_err(file)?;
    let added = BrokerEvent::TokenAdded {
        token: TokenDocument {
            name: "admin".into(),
            hash: token::hash(&secret),
            role: Role::Administrator,
            tenant: None,
            expires_ns: None,
        },
    };
    happen(store, epoch, clock, added, (broker, last))
}

/// Something that happens while the daemon starts.
fn happen(
    store: &Store,
    epoch: gpuwise_store::Epoch,
    clock: &Clock,
    event: BrokerEvent,
    (broker, last): (&mut Broker, &mut u64),
) -> Result<(), ServeError> {
    let logged = LoggedEvent {
        at_ns: clock.now().0,
        event,
    };
    broker.apply(&logged)?;
    store.append(epoch, &[entry(*last + 1, &logged)])?;
    *last += 1;
    Ok(())
}
