//! A run: requests sent as they are due, answers measured.

use super::{
    client::Client,
    clock::Clock,
    measured::Measured,
    pace::{Freed, Pacer, Pacing, Ready, State},
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
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError, SyncSender},
    },
    thread,
    time::Duration,
};
use thiserror::Error;

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
    /// When to send it.
    pub pacing: Pacing,
    /// Nothing is sent after this time from the start; what is in flight then is waited for.
    pub until: Option<Duration>,
    /// The number of the first request. Prompts differ by number, so that runs after one another
    /// have different ones.
    pub first_number: u64,
    /// Connections made before the start.
    pub connections: usize,
    /// Threads that send and read.
    pub threads: usize,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since the traffic started.
    pub elapsed: Nanoseconds,
    /// Requests in flight.
    pub in_flight: u64,
    /// Pieces with tokens that have come.
    pub pieces: u64,
}

/// What happens during a run.
#[derive(Debug)]
pub enum Happening {
    /// A request has ended.
    Measured(Measured),
    /// Some time has passed.
    Tick(Progress),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Requests sent.
    pub sent: u64,
    /// From the start of the traffic until all had ended.
    pub span: Nanoseconds,
    /// Connections that were made.
    pub connections: u64,
    /// It was stopped before all was sent.
    pub stopped: bool,
    /// When the traffic started, by the clock of the run.
    pub start: Nanoseconds,
    /// The clock of the run.
    pub clock: ClockOrigin,
}

/// When a clock started.
pub type ClockOrigin = std::time::Instant;

/// A run could not be started.
#[derive(Debug, Error)]
pub enum RunError {
    /// No thread.
    #[error("the load cannot be sent: no thread for it can be started")]
    Thread(#[source] io::Error),
    /// A thread ended by a fault.
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
    mut observe: impl FnMut(Happening) -> ControlFlow<()>,
) -> Result<Ended, RunError> {
    // Its own, so that stopping this run stops no other.
    let halt = Stop::default();
    let clock = Clock::start();
    let mut route = prepared.route.clone();
    route.clock = clock;
    let threads = load.threads.max(1);
    let counters = Arc::new(Counters::default());
    let opened = Arc::new(AtomicUsize::new(0));
    let (freed_sender, freed) = mpsc::channel();
    let (measured_sender, measured) = mpsc::channel();
    let (ready_sender, ready) = mpsc::channel();
    let mut workers = Vec::new();
    let mut handles = Vec::new();
    for place in 0..threads {
        let (jobs_sender, jobs) = tokio::sync::mpsc::unbounded_channel();
        workers.push(jobs_sender);
        let share = load.connections / threads + usize::from(place < load.connections % threads);
        let worker = worker(
            prepared,
            &route,
            &counters,
            &halt,
            share,
            &freed_sender,
            &measured_sender,
        );
        let client = Arc::clone(&worker.client);
        let opened = Arc::clone(&opened);
        let ready = ready_sender.clone();
        handles.push(spawn("client", move || {
            let ended = worker.run(jobs, &ready);
            opened.fetch_add(client.opened.load(Relaxed), Relaxed);
            ended
        })?);
    }
    drop((freed_sender, measured_sender, ready_sender));
    let prompts = prepared.prompts();
    let (made_sender, source) = mpsc::sync_channel(MADE_AHEAD);
    let making = maker(
        prepared,
        prompts.clone(),
        load.requests,
        load.first_number,
        made_sender,
    );
    let maker = spawn("prompts", making)?;
    // A worker that has no runtime has ended, and its sender with it.
    for _ in 0..threads {
        let _ = ready.recv();
    }
    let state = State::ahead(source.iter().take(MADE_AHEAD));
    let start = clock.now() + LEAD;
    let pacer = Pacer {
        clock,
        pacing: load.pacing,
        until: load
            .until
            .map(|until| start + Nanoseconds(u64::try_from(until.as_nanos()).unwrap_or(u64::MAX))),
        stop: halt.clone(),
        prompts,
        bodies: prepared.sending.bodies.clone(),
        source,
        workers,
        freed,
        start,
        state,
    };
    let pacing = spawn("pace", move || pacer.run())?;
    let mut stopped = false;
    let mut next_tick = clock.now();
    loop {
        let happening = match measured.recv_timeout(clock.until(next_tick)) {
            Ok(one) => Happening::Measured(since(one, start)),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let now = clock.now();
                next_tick = now + TICK;
                Happening::Tick(Progress {
                    elapsed: Nanoseconds(now.0.saturating_sub(start.0)),
                    in_flight: counters.in_flight.load(Relaxed),
                    pieces: counters.pieces.load(Relaxed),
                })
            }
        };
        if observe(happening).is_break() || stop.is_set() {
            stopped = true;
            halt.set();
        }
    }
    let span = Nanoseconds(clock.now().0.saturating_sub(start.0));
    let sent = pacing.join().map_err(|_| RunError::Fault)?;
    for handle in handles {
        handle
            .join()
            .map_err(|_| RunError::Fault)?
            .map_err(RunError::Thread)?;
    }
    maker.join().map_err(|_| RunError::Fault)?;
    Ok(Ended {
        sent,
        span,
        connections: opened.load(Relaxed) as u64,
        stopped,
        start,
        clock: clock.origin(),
    })
}

fn worker(
    prepared: &Prepared,
    route: &super::link::Route,
    counters: &Arc<Counters>,
    stop: &Stop,
    connections: usize,
    freed: &mpsc::Sender<Freed>,
    measured: &mpsc::Sender<Measured>,
) -> Worker {
    // An eighth of what was made beforehand stays idle, so that bursts find connections.
    let client = Client::new(
        route.clone(),
        prepared.key.clone(),
        (connections / 8).max(2),
    );
    Worker {
        client: Arc::new(client),
        sending: Arc::clone(&prepared.sending),
        counters: Arc::clone(counters),
        stop: stop.clone(),
        freed: freed.clone(),
        measured: measured.clone(),
        connections,
    }
}

/// Makes the bodies of requests before they are due.
fn maker(
    prepared: &Prepared,
    prompts: Prompts,
    requests: Box<dyn Iterator<Item = Request> + Send>,
    first_number: u64,
    made: SyncSender<Ready>,
) -> impl FnOnce() + Send + 'static {
    let bodies = prepared.sending.bodies.clone();
    move || {
        let nothing = std::collections::BTreeMap::new();
        for (place, request) in requests.enumerate() {
            let number = first_number + place as u64;
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
