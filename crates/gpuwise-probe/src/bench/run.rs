//! A run: requests sent as they are due, answers measured.

use super::{
    client::Client,
    clock::Clock,
    measured::Measured,
    pace::{EndedRequest, Job, Pacer, Pacing, Ready, State},
    prepare::Prepared,
    prompt::Prompts,
    stop::Stop,
    work::Worker,
};
use gpuwise_domain::request::Request;
use gpuwise_units::Nanoseconds;
use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use thiserror::Error;
use tokio::sync::mpsc::UnboundedSender;

/// Requests that are made before they are due.
const MADE_AHEAD: usize = 256;
/// The observer is asked at least so often.
const TICK: Nanoseconds = Nanoseconds(200_000_000);
/// Between all being ready and the start of the traffic.
const LEAD: Nanoseconds = Nanoseconds(2_000_000);

/// Traffic, and how it is sent.
pub struct Load {
    /// What to send, in the order in which it is due.
    pub requests: Box<dyn Iterator<Item = Request> + Send>,
    pub pacing: Pacing,
    /// Nothing that is due later from the start is sent; what is in flight then is waited for.
    pub until: Option<Duration>,
    /// The number of the first request. Prompts differ by number, so that runs after one another
    /// have different ones.
    pub first_number: u64,
    /// Connections made before the start.
    pub connections: usize,
    /// Threads that send and read.
    pub threads: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since the traffic started.
    pub elapsed: Nanoseconds,
    pub in_flight: u64,
    /// Pieces with tokens that have come.
    pub pieces: u64,
}

/// What happens during a run.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "handed over one at a time, never kept"
)]
pub enum LoadEvent {
    /// A request has ended.
    Measured(Measured),
    /// Some time has passed.
    Tick(Progress),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub sent: u64,
    /// From the start of the traffic until all had ended.
    pub span: Nanoseconds,
    /// Connections that were made.
    pub connections: u64,
    /// It was stopped before all was sent.
    pub stopped: bool,
    /// When the traffic started, by the clock of the run.
    pub start: Nanoseconds,
    pub clock: ClockOrigin,
}

pub type ClockOrigin = std::time::Instant;

/// A run could not be started.
#[derive(Debug, Error)]
pub enum RunError {
    #[error("the load cannot be sent: no thread for it can be started")]
    Thread(#[source] io::Error),
    #[error("the load cannot be sent: one of its threads ended by a fault")]
    Fault,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) in_flight: AtomicU64,
    pub(crate) pieces: AtomicU64,
}

/// Sends the load and hands each request to `observe` when it has ended; times are from the start
/// of the traffic. `observe` breaks to stop.
///
/// # Errors
/// When threads cannot be started. What becomes of requests is no error.
pub fn run(
    prepared: &Prepared,
    load: Load,
    stop: &Stop,
    observe: impl FnMut(LoadEvent) -> ControlFlow<()>,
) -> Result<Ended, RunError> {
    let clock = Clock::start();
    let mut fleet = Fleet::start(prepared, clock, load.threads.max(1), load.connections)?;
    let prompts = prepared.prompts();
    let (made, source) = mpsc::sync_channel(MADE_AHEAD);
    let numbers = load.first_number..;
    let making = maker(prepared, prompts.clone(), numbers.zip(load.requests), made);
    let maker = spawn("prompts", making)?;
    fleet.wait();
    let state = State::ahead(source.iter().take(MADE_AHEAD));
    let start = clock.now() + LEAD;
    let pacer = Pacer {
        clock,
        pacing: load.pacing,
        until: load
            .until
            .map(|until| start + Nanoseconds(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX))),
        stop: fleet.halt.clone(),
        prompts,
        bodies: prepared.sending.bodies.clone(),
        source,
        workers: std::mem::take(&mut fleet.jobs),
        freed: fleet.freed.take().ok_or(RunError::Fault)?,
        start,
        state,
    };
    let pacing = spawn("pace", move || pacer.run())?;
    let stopped = fleet.watch(clock, start, stop, observe);
    let span = Nanoseconds(clock.now().0.saturating_sub(start.0));
    let sent = pacing.join().map_err(|_| RunError::Fault)?;
    let connections = fleet.join()?;
    maker.join().map_err(|_| RunError::Fault)?;
    Ok(Ended {
        sent,
        span,
        connections,
        stopped,
        start,
        clock: clock.origin(),
    })
}

/// The threads that send and read, and what they say.
struct Fleet {
    /// Stops this run, and no other.
    halt: Stop,
    counters: Arc<Counters>,
    jobs: Vec<UnboundedSender<Job>>,
    freed: Option<Receiver<EndedRequest>>,
    measured: Receiver<Measured>,
    ready: Receiver<()>,
    clients: Vec<Arc<Client>>,
    handles: Vec<JoinHandle<io::Result<()>>>,
}

impl Fleet {
    fn start(
        prepared: &Prepared,
        clock: Clock,
        threads: usize,
        connections: usize,
    ) -> Result<Self, RunError> {
        let mut route = prepared.route.clone();
        route.clock = clock;
        let (freed_sender, freed) = mpsc::channel();
        let (measured_sender, measured) = mpsc::channel();
        let (ready_sender, ready) = mpsc::channel();
        let mut fleet = Self {
            halt: Stop::default(),
            counters: Arc::default(),
            jobs: Vec::new(),
            freed: Some(freed),
            measured,
            ready,
            clients: Vec::new(),
            handles: Vec::new(),
        };
        for place in 0..threads {
            let (sender, jobs) = tokio::sync::mpsc::unbounded_channel();
            let share = connections / threads + usize::from(place < connections % threads);
            // An eighth of what is made beforehand stays idle, so that bursts find connections.
            let client = Client::new(route.clone(), prepared.key.clone(), (share / 8).max(2));
            let client = Arc::new(client);
            let worker = Worker {
                client: Arc::clone(&client),
                sending: Arc::clone(&prepared.sending),
                counters: Arc::clone(&fleet.counters),
                stop: fleet.halt.clone(),
                freed: freed_sender.clone(),
                measured: measured_sender.clone(),
                connections: share,
            };
            let ready = ready_sender.clone();
            fleet.jobs.push(sender);
            fleet.clients.push(client);
            let work = move || worker.run(jobs, &ready);
            fleet.handles.push(spawn("client", work)?);
        }
        Ok(fleet)
    }

    /// Until all have made their connections. One that cannot run has ended, and counts too.
    fn wait(&self) {
        for _ in &self.handles {
            let _ = self.ready.recv();
        }
    }

    /// Hands on what is measured until all has ended; whether it was stopped.
    fn watch(
        &self,
        clock: Clock,
        start: Nanoseconds,
        stop: &Stop,
        mut observe: impl FnMut(LoadEvent) -> ControlFlow<()>,
    ) -> bool {
        let mut next_tick = clock.now();
        loop {
            let event = match self.measured.recv_timeout(clock.until(next_tick)) {
                Ok(one) => LoadEvent::Measured(since(one, start)),
                Err(RecvTimeoutError::Disconnected) => return self.halt.is_set(),
                Err(RecvTimeoutError::Timeout) => {
                    let now = clock.now();
                    next_tick = now + TICK;
                    LoadEvent::Tick(Progress {
                        elapsed: Nanoseconds(now.0.saturating_sub(start.0)),
                        in_flight: self.counters.in_flight.load(Relaxed),
                        pieces: self.counters.pieces.load(Relaxed),
                    })
                }
            };
            if observe(event).is_break() || stop.is_set() {
                self.halt.set();
            }
        }
    }

    /// Waits for the threads; connections that they made.
    fn join(self) -> Result<u64, RunError> {
        for handle in self.handles {
            let ended = handle.join().map_err(|_| RunError::Fault)?;
            ended.map_err(RunError::Thread)?;
        }
        let opened = self
            .clients
            .iter()
            .map(|client| client.opened.load(Relaxed));
        Ok(opened.sum::<usize>() as u64)
    }
}

/// Makes the bodies of requests before they are due.
fn maker(
    prepared: &Prepared,
    prompts: Prompts,
    requests: impl Iterator<Item = (u64, Request)> + Send + 'static,
    made: SyncSender<Ready>,
) -> impl FnOnce() + Send + 'static {
    let bodies = prepared.sending.bodies.clone();
    move || {
        let nothing = std::collections::BTreeMap::new();
        for (number, request) in requests {
            // What repeats an answer is made when that has come.
            let body = (request.session.is_none() || request.prefix.is_none()).then(|| {
                let turns = prompts.turns(number, &request, &nothing);
                bodies.of(&turns, request.output)
            });
            let ready = Ready {
                number,
                request,
                body,
            };
            if made.send(ready).is_err() {
                return;
            }
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, RunError> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(RunError::Thread)
}

/// With times from the start of the traffic.
fn since(mut measured: Measured, start: Nanoseconds) -> Measured {
    let from = |at: Nanoseconds| Nanoseconds(at.0.saturating_sub(start.0));
    let record = &mut measured.record;
    record.due = from(record.due);
    record.sent = from(record.sent);
    record.first_token = record.first_token.map(from);
    record.end = from(record.end);
    for piece in &mut measured.pieces {
        *piece = from(*piece);
    }
    measured
}
