//! From the log to a writer whose turn it is.

use super::{
    ExecutorKind, Said, ServeError, Settings,
    first::{begin, first_token, happen},
    thread_of,
};
use crate::{
    clock::Clock,
    collect::Collector,
    desk::Desk,
    executor::{Composed, Daemon, Executor, Local, Shows, Simulated, Slurm},
    gateway,
    http::{self, Shared},
    lead,
    limits::Limits,
    message::Incoming,
    observe::{Lines, Traces},
    oidc::Oidc,
    replay::Replay,
    standing::{Gate, Stage},
    token,
    writer::{Trouble, Writer},
};
use gpuwise_store::Store;
use gpuwise_wire::broker::BrokerEvent;
use std::{
    net::SocketAddr,
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
    sender: &mpsc::Sender<Incoming>,
    shows: &Shows,
) -> Result<Box<dyn Executor>, ServeError> {
    // Two brokers of a machine, each with its log, know nothing of one another's processes.
    let own = format!("broker-{}", &token::hash(&settings.store)[..8]);
    let place = settings.state.join(own);
    let (inbox, sender, shows) = (sender, sender.clone(), shows.clone());
    let inner: Box<dyn Executor> = match &settings.executor {
        ExecutorKind::Simulated(delays) => Box::new(Simulated::new(*delays)),
        ExecutorKind::Local => {
            let driver = settings.driver.clone();
            Box::new(Local::new(place, sender, shows.endpoints, driver))
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
pub(super) fn start(
    settings: Settings,
    desk: Arc<dyn Desk>,
    address: SocketAddr,
    (gate, closing): (&Gate, &watch::Receiver<bool>),
    say: &dyn Fn(&Said),
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
    let from = replay.from();
    let (mut ahead, mut last) = match replay.into_state() {
        Some(found) => found,
        None => begin(&store, epoch, &settings)?,
    };
    let clock = Clock::new(ahead.now(), settings.speed);
    if ahead.tokens().next().is_none() {
        let file = (settings.token_file)(&settings.state, address);
        first_token(&store, epoch, &file, &clock, (&mut ahead, &mut last))?;
        say(&Said::Token(file));
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
    let beside = Shows::default();
    let mut executor = executor_of(&settings, &sender, &beside)?;
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
        takes_images: executor.takes_images(),
        endpoints: beside.endpoints,
        queued: beside.queued,
        accounts: beside.accounts,
        client: gateway::Client::default(),
        traffic: gateway::Traffic::default(),
        demand: gateway::Demand::default(),
        rehearsed: settings.rehearsed,
        warm_memory: settings.warm_memory,
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
