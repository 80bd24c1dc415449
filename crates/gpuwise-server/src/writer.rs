//! The one thread that writes: batches of requests become events, durable before anybody is answered.

use crate::{
    clock::Clock,
    desk::Desk,
    executor::Executor,
    lead::BEAT,
    message::{Answer, Command, Failure, Incoming, Message},
    replay::event,
    standing::{Stage, Standing},
};
use gpuwise_broker::{Broken, Broker, Observation, Refusal};
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

/// Steps of proposals and SLOs in one round at most; what is left comes in the next.
const STEPS: usize = 64;

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
    pub(crate) standing: Standing,
    /// What could not be kept the last time; it has been observed all the same.
    pub(crate) again: Vec<Observation>,
    pub(crate) trouble: Trouble,
    pub(crate) beaten: Instant,
}

/// What is wrong with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// It could not be written the last time.
    Refused,
    /// It is not known whether it was written the last time.
    Unsure,
}

/// Why the writer stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
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
        let mut told = BTreeSet::new();
        let mut dirty = true;
        let mut decided_at = self.clock.now();
        loop {
            let wake = self.ahead.wake_at(&policy, decided_at);
            let (batch, stop) = self.next(dirty, wake);
            let (asked, mut seen) = apart(batch);
            if self.trouble == Trouble::Unsure
                && let Some(error) = self.make_sure()?
            {
                self.again.append(&mut seen);
                answer_all(asked, &Failure::Store(error));
            } else {
                let now = self.clock.now();
                seen.splice(..0, self.again.drain(..));
                seen.extend(self.executor.observe(now));
                let looks = dirty || wake.is_some_and(|at| at <= now);
                let (events, replies) = self.round(now, asked, &seen, &mut policy, looks)?;
                decided_at = now;
                dirty = !self.settle(&events, replies)?;
                for one in &seen {
                    if let Observation::Failed { order, .. } = one {
                        // Where it is still wanted it is told again: what could not be stopped still runs.
                        told.remove(order);
                    }
                }
                if dirty {
                    // What was planned and told from a state that never was is forgotten.
                    self.again = seen;
                    policy = self.desk.policy(&self.ahead);
                }
                self.beat()?;
                self.tell(now, &mut told);
            }
            if stop {
                return Ok(());
            }
        }
    }

    /// What is asked and what is observed become events.
    fn round(
        &mut self,
        now: Nanoseconds,
        asked: Vec<Message>,
        seen: &[Observation],
        policy: &mut Policy,
        dirty: bool,
    ) -> Result<(Vec<LoggedEvent>, Vec<Reply>), Stopped> {
        let mut events = Vec::new();
        let mut replies = Vec::new();
        for Message {
            command,
            origin,
            answer,
        } in asked
        {
            let said = match self.asked_by(now, origin, command, policy) {
                Ok((said, happened)) => {
                    self.happen(now, happened, &mut events)?;
                    Ok(said)
                }
                Err(failure) => Err(failure),
            };
            replies.push((answer, said));
        }
        for observation in seen {
            let happened = self.ahead.observe(observation);
            self.happen(now, happened, &mut events)?;
        }
        let due = self.ahead.due(now);
        self.happen(now, due, &mut events)?;
        self.follow_up(now, &mut events)?;
        if dirty || !events.is_empty() {
            let decided = self.ahead.decide(now, policy);
            self.happen(now, decided, &mut events)?;
        }
        Ok((events, replies))
    }

    /// What follows of what has happened, step by step.
    fn follow_up(
        &mut self,
        now: Nanoseconds,
        events: &mut Vec<LoggedEvent>,
    ) -> Result<(), Stopped> {
        for _ in 0..STEPS {
            let follows = self.ahead.follow_up(now);
            if follows.is_empty() {
                break;
            }
            self.happen(now, follows, events)?;
        }
        Ok(())
    }

    /// Says that we are alive, where it is time to. A database that does not answer may come back.
    fn beat(&mut self) -> Result<(), Stopped> {
        if self.beaten.elapsed() < BEAT {
            return Ok(());
        }
        let beaten = self.store.beat(self.epoch);
        self.beaten = Instant::now();
        match beaten {
            Ok(()) => {
                if self.trouble == Trouble::Refused {
                    self.well();
                }
            }
            Err(error) => {
                self.bearable(error)?;
                if self.trouble == Trouble::None {
                    self.trouble = Trouble::Refused;
                }
            }
        }
        Ok(())
    }

    /// The log is written again.
    fn well(&mut self) {
        self.trouble = Trouble::None;
        self.standing.set(Stage::Writes);
    }

    /// An error that may pass; that somebody else writes does not.
    fn bearable(&self, error: StoreError) -> Result<Arc<StoreError>, Stopped> {
        if matches!(error, StoreError::Fenced { .. }) {
            return Err(error.into());
        }
        self.standing.set(Stage::Troubled(whole(&error)));
        Ok(Arc::new(error))
    }

    /// Finds out what an append came to whose answer was lost, and goes on from there; why that cannot be
    /// found out yet.
    fn make_sure(&mut self) -> Result<Option<Arc<StoreError>>, Stopped> {
        let last = match self.store.settled(self.epoch) {
            Ok(last) => last,
            Err(error) => return self.bearable(error).map(Some),
        };
        while self.last < last {
            let page = match self.store.events_after(self.last, PAGE) {
                Ok(page) => page,
                Err(error) => return self.bearable(error).map(Some),
            };
            for entry in page {
                self.write().apply(&event(&entry)?)?;
                self.last = entry.seq;
                let _ = self.followers.send(Arc::new(entry));
            }
        }
        let before = self.read().clone();
        self.ahead = before;
        self.trouble = Trouble::Refused;
        Ok(None)
    }

    /// Waits for something to do.
    fn next(&self, at_once: bool, wake: Option<Nanoseconds>) -> (Vec<Incoming>, bool) {
        let mut wait = NAP;
        // Where the log cannot be written nothing happens, however late it is.
        if self.trouble == Trouble::None {
            let wakes = [wake, self.executor.wake_at()];
            for at in wakes.into_iter().flatten() {
                wait = wait.min(self.clock.until(at));
            }
            if at_once {
                wait = Duration::ZERO;
            }
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

    pub(crate) fn asked(
        &self,
        now: Nanoseconds,
        command: Command,
        policy: &mut Policy,
    ) -> Result<(Answer, Vec<BrokerEvent>), Failure> {
        Ok(match command {
            Command::CreateTenant(queue, budget) => {
                (Answer::Done, self.ahead.create_tenant(queue, budget)?)
            }
            Command::ChangeTenant(queue, budget, suspended) => {
                let events = self.ahead.change_tenant(now, queue, budget, suspended)?;
                (Answer::Done, events)
            }
            Command::SetPrice(price) => (Answer::Done, self.ahead.set_price(now, price)?),
            Command::AddToken(token) => (Answer::Done, self.ahead.add_token(token)?),
            Command::RevokeToken(name, tenant) => (
                Answer::Done,
                self.ahead.revoke_token(&name, tenant.as_deref())?,
            ),
            Command::Request(asked) => {
                let promised = asked.ask.promise == Some(true);
                if promised && !self.ahead.could_start_now(now, &asked, policy) {
                    let what = "no place for it is free now".into();
                    return Err(Refusal::NotPromised(what).into());
                }
                let (number, events) = self.ahead.request(now, *asked)?;
                (Answer::Lease(number, !events.is_empty()), events)
            }
            Command::Release(number, reason) => {
                let events = self.ahead.release(number, &reason)?;
                (Answer::Lease(number, false), events)
            }
            Command::Park(number) => (Answer::Done, self.ahead.park(now, number)),
            Command::Wake(number) => (Answer::Done, self.ahead.wake(number)),
            Command::Explain(number) => {
                let explained = self.ahead.explain(now, number, policy, true);
                (Answer::Explanation(Box::new(explained)), Vec::new())
            }
            Command::Usage(told) => {
                let (answer, events) = self.ahead.usage(now, told)?;
                (Answer::Usage(answer), events)
            }
            Command::SetSlo(target, objectives) => {
                let (number, events) = self.ahead.set_slo(&target, objectives)?;
                (Answer::Slo(number), events)
            }
            Command::RemoveSlo(number) => (Answer::Done, self.ahead.remove_slo(number)?),
            Command::Learn(lease, rows, reason) => {
                let learned = BrokerEvent::Learned {
                    lease,
                    rows,
                    reason,
                };
                (Answer::Done, vec![learned])
            }
            Command::Propose(proposal) => (Answer::Done, self.ahead.propose(*proposal)),
            Command::DecideProposal(id, accepted, reason) => {
                let events = self.ahead.decide_proposal(&id, accepted, &reason)?;
                (Answer::Done, events)
            }
        })
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

    /// Keeps what has happened, shows it, and answers; whether it was kept. Where it was not it has not
    /// happened.
    fn settle(&mut self, events: &[LoggedEvent], replies: Vec<Reply>) -> Result<bool, Stopped> {
        let entries: Vec<LogEntry> = (self.last + 1..)
            .zip(events)
            .map(|(seq, event)| entry(seq, event))
            .collect();
        if !entries.is_empty() {
            if let Err(error) = self.keep(&entries) {
                self.undo(error, replies)?;
                return Ok(false);
            }
            self.last += entries.len() as u64;
            let mut shown = self.write();
            for event in events {
                shown.apply(event)?;
            }
            drop(shown);
            if self.trouble != Trouble::None {
                self.well();
            }
        }
        for (answer, said) in replies {
            // Nobody may be waiting any more.
            let _ = answer.send(said);
        }
        for entry in entries {
            let _ = self.followers.send(Arc::new(entry));
        }
        Ok(true)
    }

    /// Appends; where the answer was lost, asks what became of it.
    fn keep(&mut self, entries: &[LogEntry]) -> Result<(), StoreError> {
        let Err(error) = self.store.append(self.epoch, entries) else {
            return Ok(());
        };
        self.trouble = Trouble::Refused;
        if !error.is_unsure() {
            return Err(error);
        }
        match self.store.settled(self.epoch) {
            Ok(last) if last == self.last => Err(error),
            Ok(_) => Ok(()),
            Err(asking) => {
                self.trouble = Trouble::Unsure;
                let fenced = matches!(asking, StoreError::Fenced { .. });
                Err(if fenced { asking } else { error })
            }
        }
    }

    /// Goes back to what is durable, and says so to those who asked.
    fn undo(&mut self, error: StoreError, replies: Vec<Reply>) -> Result<(), Stopped> {
        let before = self.read().clone();
        self.ahead = before;
        let fenced = matches!(error, StoreError::Fenced { .. });
        self.standing.set(Stage::Troubled(whole(&error)));
        let error = Arc::new(error);
        for (answer, _) in replies {
            let error = Arc::clone(&error);
            let _ = answer.send(Err(match self.trouble {
                Trouble::Unsure => Failure::Unsure(error),
                Trouble::None | Trouble::Refused => Failure::Store(error),
            }));
        }
        if fenced {
            let epoch = self.epoch.0;
            return Err(StoreError::Fenced { epoch }.into());
        }
        Ok(())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Broker> {
        self.shown.write().unwrap_or_else(PoisonError::into_inner)
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

/// What is asked, and what is observed.
fn apart(batch: Vec<Incoming>) -> (Vec<Message>, Vec<Observation>) {
    let (mut asked, mut seen) = (Vec::new(), Vec::new());
    for incoming in batch {
        match incoming {
            Incoming::Asked(message) => asked.push(message),
            Incoming::Observed(observation) => seen.push(observation),
            Incoming::Stop => {}
        }
    }
    (asked, seen)
}

/// An error with its causes.
fn whole(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn answer_all(asked: Vec<Message>, failure: &Failure) {
    for message in asked {
        // Nobody may be waiting any more.
        let _ = message.answer.send(Err(failure.clone()));
    }
}

/// Events read at a time, after an append whose answer was lost.
const PAGE: u32 = 2_000;

/// An event as the log keeps it.
pub(crate) fn entry(seq: u64, event: &LoggedEvent) -> LogEntry {
    LogEntry {
        seq,
        at_ns: i64::try_from(event.at_ns).unwrap_or(i64::MAX),
        kind: event.event.kind().to_owned(),
        body: serde_json::to_string(&event.event).unwrap_or_default(),
    }
}
