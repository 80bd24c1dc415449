//! The one thread that writes: batches of requests become events, durable before anybody is answered.

use crate::{
    clock::Clock,
    desk::Desk,
    executor::Executor,
    lead::BEAT,
    message::{Answer, Command, Failure, Incoming, Message},
};
use gpuwise_broker::{Broken, Broker, Observation};
use gpuwise_sched::decide::Policy;
use gpuwise_store::{Epoch, LogEntry, Store, StoreError};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{BrokerEvent, LoggedEvent};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};
use tokio::sync::{broadcast, oneshot};

/// Requests of one transaction at most.
const BATCH: usize = 512;

/// How long the writer sleeps at most: executors that cannot wake it are asked so often.
const NAP: Duration = Duration::from_millis(200);

/// What readers see.
pub(crate) type Shown = Arc<RwLock<Broker>>;

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) epoch: Epoch,
    /// With what is about to be written.
    pub(crate) ahead: Broker,
    pub(crate) shown: Shown,
    /// The last event of the log.
    pub(crate) last: u64,
    pub(crate) clock: Clock,
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) inbox: Receiver<Incoming>,
    pub(crate) followers: broadcast::Sender<Arc<LogEntry>>,
}

/// Why the writer stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the state contradicts itself")]
    Broken(#[from] Broken),
}

type Reply = (
    oneshot::Sender<Result<Answer, Failure>>,
    Result<Answer, Failure>,
);

impl Writer {
    /// Writes until it is told to stop, or somebody else writes.
    pub(crate) fn run(&mut self) -> Result<(), Stopped> {
        let mut policy = self.desk.policy(&self.ahead);
        let mut beaten = Instant::now();
        let mut told = BTreeSet::new();
        let mut dirty = true;
        let mut decided_at = self.clock.now();
        loop {
            let wake = self.ahead.wake_at(&policy, decided_at);
            let (batch, stop) = self.next(dirty, wake);
            let now = self.clock.now();
            let mut events = Vec::new();
            let mut replies = Vec::new();
            for incoming in batch {
                self.take(now, incoming, &mut policy, &mut events, &mut replies)?;
            }
            for seen in self.executor.observe(now) {
                self.observed(now, &seen, &mut events)?;
            }
            let due = self.ahead.due(now);
            self.happen(now, due, &mut events)?;
            let woken = wake.is_some_and(|at| at <= now);
            if dirty || woken || !events.is_empty() {
                let decided = self.ahead.decide(now, &mut policy);
                decided_at = now;
                self.happen(now, decided, &mut events)?;
            }
            dirty = false;
            self.settle(events, replies)?;
            self.tell(now, &mut told);
            if beaten.elapsed() >= BEAT {
                self.store.beat(self.epoch)?;
                beaten = Instant::now();
            }
            if stop {
                return Ok(());
            }
        }
    }

    /// Waits for something to do.
    fn next(&self, at_once: bool, wake: Option<Nanoseconds>) -> (Vec<Incoming>, bool) {
        let mut wait = NAP;
        let wakes = [wake, self.executor.wake_at()];
        for at in wakes.into_iter().flatten() {
            wait = wait.min(self.clock.until(at));
        }
        if at_once {
            wait = Duration::ZERO;
        }
        let mut batch = Vec::new();
        match self.inbox.recv_timeout(wait) {
            Ok(Incoming::Stop) | Err(RecvTimeoutError::Disconnected) => return (batch, true),
            Err(RecvTimeoutError::Timeout) => return (batch, false),
            Ok(first) => batch.push(first),
        }
        while batch.len() < BATCH {
            match self.inbox.try_recv() {
                Ok(Incoming::Stop) => return (batch, true),
                Ok(more) => batch.push(more),
                Err(_) => break,
            }
        }
        (batch, false)
    }

    fn take(
        &mut self,
        now: Nanoseconds,
        incoming: Incoming,
        policy: &mut Policy,
        events: &mut Vec<LoggedEvent>,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Stopped> {
        match incoming {
            Incoming::Observed(seen) => self.observed(now, &seen, events),
            Incoming::Asked(Message { command, answer }) => {
                let said = match self.asked(now, command, policy) {
                    Ok((said, happened)) => {
                        self.happen(now, happened, events)?;
                        Ok(said)
                    }
                    Err(failure) => Err(failure),
                };
                replies.push((answer, said));
                Ok(())
            }
            Incoming::Stop => Ok(()),
        }
    }

    fn asked(
        &self,
        now: Nanoseconds,
        command: Command,
        policy: &mut Policy,
    ) -> Result<(Answer, Vec<BrokerEvent>), Failure> {
        Ok(match command {
            Command::CreateTenant(queue, budget) => {
                (Answer::Done, self.ahead.create_tenant(queue, budget)?)
            }
            Command::AddToken(token) => (Answer::Done, self.ahead.add_token(token)?),
            Command::RevokeToken(name, tenant) => (
                Answer::Done,
                self.ahead.revoke_token(&name, tenant.as_deref())?,
            ),
            Command::Request(asked) => {
                let (number, events) = self.ahead.request(now, *asked)?;
                (Answer::Lease(number, !events.is_empty()), events)
            }
            Command::Release(number, reason) => {
                let events = self.ahead.release(number, &reason)?;
                (Answer::Lease(number, false), events)
            }
            Command::Explain(number) => {
                let explained = self.ahead.explain(now, number, policy, true);
                (Answer::Explanation(Box::new(explained)), Vec::new())
            }
        })
    }

    fn observed(
        &mut self,
        now: Nanoseconds,
        seen: &Observation,
        events: &mut Vec<LoggedEvent>,
    ) -> Result<(), Stopped> {
        let happened = self.ahead.observe(seen);
        self.happen(now, happened, events)
    }

    fn happen(
        &mut self,
        now: Nanoseconds,
        happened: Vec<BrokerEvent>,
        events: &mut Vec<LoggedEvent>,
    ) -> Result<(), Stopped> {
        for event in happened {
            let logged = LoggedEvent {
                at_ns: now.0,
                event,
            };
            self.ahead.apply(&logged)?;
            events.push(logged);
        }
        Ok(())
    }

    /// Keeps what has happened, shows it, and answers. Where it cannot be kept it has not happened.
    fn settle(&mut self, events: Vec<LoggedEvent>, replies: Vec<Reply>) -> Result<(), Stopped> {
        let entries: Vec<LogEntry> = (self.last + 1..)
            .zip(&events)
            .map(|(seq, event)| entry(seq, event))
            .collect();
        let kept = if entries.is_empty() {
            Ok(())
        } else {
            self.store.append(self.epoch, &entries)
        };
        if let Err(error) = kept {
            let before = self.read().clone();
            self.ahead = before;
            let fenced = matches!(error, StoreError::Fenced { .. });
            let error = Arc::new(error);
            for (answer, _) in replies {
                // Nobody may be waiting any more.
                let _ = answer.send(Err(Failure::Store(Arc::clone(&error))));
            }
            return match (fenced, Arc::try_unwrap(error)) {
                (true, Ok(error)) => Err(error.into()),
                (true, Err(_)) => Err(StoreError::Fenced {
                    epoch: self.epoch.0,
                }
                .into()),
                (false, _) => Ok(()),
            };
        }
        self.last += entries.len() as u64;
        {
            let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
            for event in &events {
                shown.apply(event)?;
            }
        }
        for (answer, said) in replies {
            let _ = answer.send(said);
        }
        for entry in entries {
            let _ = self.followers.send(Arc::new(entry));
        }
        Ok(())
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Broker> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the executor what it has not been told.
    fn tell(&mut self, now: Nanoseconds, told: &mut BTreeSet<gpuwise_broker::OrderId>) {
        told.retain(|id| self.ahead.wants(*id));
        for order in self.ahead.orders() {
            if told.insert(order.id) {
                self.executor.take(now, &order, &self.ahead);
            }
        }
    }
}

/// An event as the log keeps it.
pub(crate) fn entry(seq: u64, event: &LoggedEvent) -> LogEntry {
    LogEntry {
        seq,
        at_ns: i64::try_from(event.at_ns).unwrap_or(i64::MAX),
        kind: event.event.kind().to_owned(),
        body: serde_json::to_string(&event.event).unwrap_or_default(),
    }
}

/// An event of the log.
///
/// # Errors
/// When its document is none that we know.
pub(crate) fn event(entry: &LogEntry) -> Result<LoggedEvent, Broken> {
    let event = serde_json::from_str(&entry.body)
        .map_err(|error| Broken::Document(format!("event {} of the log: {error}", entry.seq)))?;
    Ok(LoggedEvent {
        at_ns: entry.at_ns.unsigned_abs(),
        event,
    })
}

/// Events read at a time.
const PAGE: u32 = 10_000;

/// The state that a log comes to, and its last event; `None`: the log is empty.
///
/// # Errors
/// When the database refuses, or the log does not fit together.
pub(crate) fn rebuild(store: &Store) -> Result<Option<(Broker, u64)>, Stopped> {
    let mut state: Option<Broker> = None;
    let mut last = 0;
    loop {
        let page = store.events_after(last, PAGE)?;
        if page.is_empty() {
            return Ok(state.map(|state| (state, last)));
        }
        for entry in &page {
            let logged = event(entry)?;
            match &mut state {
                None => state = Some(Broker::begin(&logged)?),
                Some(state) => state.apply(&logged)?,
            }
            last = entry.seq;
        }
    }
}
