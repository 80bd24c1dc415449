//! From the log to a writer whose turn it is.

use super::{
    ExecutorKind, Said, ServeError, Settings,
    first::{begin, first_token, fleet_given, policy_given},
    folder, thread_of,
};
use crate::{
    clock::Clock,
    collect::Collector,
    conservation::Conservation,
    desk::Desk,
    executor::{
        Composed, Daemon, Executor, Local, Own, Shows, Simulated, Slurm, Supervisor,
        kept_elsewhere, trusted,
    },
    gateway,
    http::{self, Shared},
    lead,
    limits::Limits,
    listening::Connections,
    message::Incoming,
    observe::{Lines, Traces},
    oidc::Oidc,
    replay::Replay,
    secrets::Secrets,
    standing::{Gate, Stage},
    tenant_bounds::{EventStreams, UsageUnderWay},
    token,
    writer::{Trouble, Writer},
};
use gpuwise_broker::Broker;
use gpuwise_store::{Epoch, Store};
use gpuwise_units::Nanoseconds;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, RwLock, mpsc},
    time::Instant,
};
use tokio::sync::{broadcast, watch};

/// Events that a follower may be behind before it is told to read them from the log.
const BEHIND: usize = 4096;

/// A daemon whose turn it is to write.
pub(super) struct Started {
    pub(super) writer: Writer,
    pub(super) inbox: mpsc::Sender<Incoming>,
    pub(super) collector: Collector,
    /// The last event of the snapshot that it began with.
    pub(super) from: u64,
}

fn executor_of(
    settings: &Settings,
    (log, secrets): (&str, &Secrets),
    sender: &mpsc::Sender<Incoming>,
    shows: &Shows,
) -> Result<Box<dyn Executor>, ServeError> {
    let place = folder::of_log(&settings.state, log, &settings.store)?;
    if !matches!(settings.executor, ExecutorKind::Simulated(_)) {
        // Until this process ends.
        std::mem::forget(folder::hold(&place, &settings.store)?);
    }
    let (inbox, sender, shows) = (sender, sender.clone(), shows.clone());
    let inner: Box<dyn Executor> = match &settings.executor {
        ExecutorKind::Simulated(delays) => Box::new(Simulated::new(*delays)),
        ExecutorKind::Local(how) => {
            let supervisor = Supervisor::own();
            hold_elsewhere(&place, log, &settings.store, &supervisor)?;
            let own = Own {
                state: place,
                broker: log.to_owned(),
                secrets: secrets.clone(),
                supervisor,
            };
            let driver = settings.driver.clone();
            Box::new(Local::new(how.clone(), own, sender, shows, driver))
        }
        ExecutorKind::Slurm(how) => {
            let slurm = Slurm::new(how.clone(), place, sender, shows);
            Box::new(slurm.map_err(ServeError::Slurm)?)
        }
        ExecutorKind::Made(made) => {
            let host = Arc::new(Daemon { sender, shows });
            made.make(place, host).map_err(ServeError::Executor)?
        }
    };
    let Some(compose) = &settings.compose else {
        return Ok(inner);
    };
    let composed = Composed::new(inner, compose.clone(), inbox.clone());
    Ok(Box::new(composed.map_err(thread_of("composing hosts"))?))
}

/// What runs of this log and is noted in other folders is gone on with, unless a broker that runs keeps it: one of
/// another state directory, whose log this one is a copy of.
///
/// # Errors
/// When another broker keeps it, or other accounts can change what is noted there.
fn hold_elsewhere(
    own: &Path,
    log: &str,
    store: &str,
    supervisor: &Supervisor,
) -> Result<(), ServeError> {
    for folder in kept_elsewhere(log, own, supervisor) {
        let shown = folder.display().to_string();
        let folder = trusted(&folder).map_err(|source| ServeError::Elsewhere {
            folder: shown,
            source,
        })?;
        // Until this process ends, too: what runs there is ours then.
        std::mem::forget(folder::hold(&folder, store)?);
    }
    Ok(())
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

/// The file of the first administrator's token; one in the folder that nodes share moves there.
fn token_file(
    settings: &Settings,
    address: SocketAddr,
    say: &dyn Fn(&Said),
) -> Result<PathBuf, ServeError> {
    let file = (settings.token_file)(&settings.own, address);
    let shared = (settings.token_file)(&settings.state, address);
    let moved = token::take_over(&shared, &file).map_err(|source| ServeError::Token {
        file: shared.display().to_string(),
        source,
    })?;
    if moved {
        say(&Said::TokenMoved(shared, file.clone()));
    }
    Ok(file)
}

/// Gives the right to write back before it was used; where that fails, others wait for our silence.
fn gives_back(store: &Store, epoch: Epoch) {
    let _ = store.give_back(epoch);
}

/// A log that this daemon may write, and what it comes to.
struct OpenedLog {
    store: Store,
    epoch: Epoch,
    /// The event whose snapshot the state was made from.
    from: u64,
    ahead: Broker,
    last: u64,
    clock: Clock,
}

/// Waits until nobody else writes and reads the log meanwhile; `None`: it was told to end.
fn open_log(
    settings: &Settings,
    address: SocketAddr,
    (gate, closing): (&Gate, &watch::Receiver<bool>),
    say: &dyn Fn(&Said),
) -> Result<Option<OpenedLog>, ServeError> {
    let store = Store::open_durable(&settings.store)?;
    let mut replay = Replay::open(&store)?;
    let taken = lead::take(
        &store,
        &lead::holder(),
        |leader| {
            gate.standing.set(Stage::Waits);
            let holder = leader.holder.clone();
            say(&Said::Waits { address, holder });
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
    store
        .find_head()
        .inspect_err(|_| gives_back(&store, epoch))?;
    let from = replay.from();
    let found = replay.into_state();
    let is_new = found.is_none();
    let (mut ahead, mut last) = match found {
        Some(found) => found,
        None => begin(&store, epoch, settings).inspect_err(|_| gives_back(&store, epoch))?,
    };
    let written = ahead.now().max(Nanoseconds(store.last_seen()?));
    let clock = Clock::start(Some(written), settings.speed, settings.clock)
        .inspect_err(|_| gives_back(&store, epoch))?;
    if let Some(by) = clock.shift() {
        say(&Said::Shifted { by });
    }
    let file = token_file(settings, address, say)?;
    if ahead.tokens().next().is_none() {
        first_token(&store, epoch, &file, &clock, (&mut ahead, &mut last))?;
        say(&Said::Token(file));
    }
    policy_given(settings, &store, epoch, &clock, (&mut ahead, &mut last))?;
    if let Some(file) = &settings.fleet_file {
        let writes = (&store, epoch, &clock);
        let changes = fleet_given(file, is_new, writes, (&mut ahead, &mut last))?;
        changes
            .into_iter()
            .map(Said::Fleet)
            .for_each(|said| say(&said));
    }
    Ok(Some(OpenedLog {
        store,
        epoch,
        from,
        ahead,
        last,
        clock,
    }))
}

/// Opens the log, and the gate to those that ask; `None`: it was told to end.
pub(super) fn start(
    settings: Settings,
    desk: Arc<dyn Desk>,
    (address, connections): (SocketAddr, Connections),
    (gate, closing): (&Gate, &watch::Receiver<bool>),
    say: &dyn Fn(&Said),
) -> Result<Option<Started>, ServeError> {
    let oidc = settings.oidc.clone().map(Oidc::new).transpose()?;
    let Some(opened) = open_log(&settings, address, (gate, closing), say)? else {
        return Ok(None);
    };
    let OpenedLog {
        store,
        epoch,
        from,
        ahead,
        last,
        clock,
    } = opened;
    let (sender, inbox) = mpsc::channel();
    let shown = Arc::new(RwLock::new(ahead.clone()));
    let (followers, _) = broadcast::channel(BEHIND);
    let beside = Shows::default();
    let log = folder::log_id(&ahead);
    let folder = settings.own.join(format!("secrets-{log}"));
    let secrets = Secrets::open(folder.clone()).map_err(|source| ServeError::Folder {
        folder: folder.display().to_string(),
        source,
    })?;
    let mut executor = executor_of(&settings, (&log, &secrets), &sender, &beside)?;
    executor.adopt(&ahead);
    gate.standing.set(Stage::Writes);
    let conservation = Conservation::default();
    let shared = Arc::new(Shared {
        traces: traced(&settings, &followers, &shown)?,
        shown: Arc::clone(&shown),
        inbox: sender.clone(),
        followers: followers.clone(),
        desk: Arc::clone(&desk),
        clock: clock.clone(),
        store: settings.store,
        executor: executor.name(),
        secrets,
        logs: executor.logs(),
        takes_images: executor.takes_images(),
        endpoints: beside.endpoints,
        queued: beside.queued,
        remains: beside.remains,
        accounts: beside.accounts,
        client: gateway::Client::default(),
        patience: settings.patience,
        traffic: gateway::Traffic::default(),
        demand: gateway::Demand::default(),
        rehearsed: settings.rehearsed,
        warm_memory: settings.warm_memory,
        standing: gate.standing.clone(),
        tls: settings.tls.is_some(),
        oidc,
        began: clock.now(),
        closing: closing.clone(),
        counters: http::Counters::default(),
        connections,
        limits: Limits::new(settings.tenant_requests),
        lease_bytes: settings.tenant_bounds.lease_bytes,
        streams: EventStreams::new(settings.tenant_bounds.streams),
        usage: UsageUnderWay::default(),
        late_reads: http::LateReads::default(),
        reader: http::Reader::default(),
        monitored: http::Monitored::default(),
        unconserved: conservation.found.clone(),
        lines: Lines(settings.lines),
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
        conservation,
        mistimed: false,
        waiting: settings.tenant_bounds.waiting,
    };
    Ok(Some(Started {
        writer,
        inbox: sender,
        collector,
        from,
    }))
}
