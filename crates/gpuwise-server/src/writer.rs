//! The one thread that writes: batches of requests become events, durable before anybody is answered.

mod keeping;

use crate::{
    clock::{Clock, ClockError},
    conservation::Conservation,
    desk::Desk,
    executor::Executor,
    message::{Answer, Command, Failure, Incoming, Message},
    standing::{Stage, Standing},
};
use gpuwise_broker::{Broken, Broker, FleetChanges, Observation, Refusal};
use gpuwise_sched::decide::Policy;
use gpuwise_store::{Epoch, LogEntry, Store, StoreError};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{BrokerEvent, LoggedEvent};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, RwLock,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{broadcast, oneshot};

/// After a decision so many times as long as it took goes to whoever asks: where thousands wait, who asks does
/// not wait for all of them to be looked at.
const REST: u32 = 2;

/// Requests of one transaction at most.
const BATCH: usize = 512;

/// Events of usage after which a transaction is full: what came behind them is answered with the next one.
const USAGE: usize = 4096;

/// How long the writer sleeps at most: executors that cannot wake it are asked so often.
const NAP: Duration = Duration::from_millis(200);

/// How often a clock that is not believed is looked at.
const MISTIMED: Duration = Duration::from_millis(100);

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
    pub(crate) conservation: Conservation,
    /// Whether the machine's clock was not believed the last time.
    pub(crate) mistimed: bool,
    /// Leases of a tenant that may wait for their first place.
    pub(crate) waiting: Option<u32>,
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

/// When is decided next.
#[derive(Debug, Default)]
struct Pace {
    /// Something has happened since the last decision.
    is_due: bool,
    /// Until when others go first.
    rests: Option<Instant>,
}

type Reply = (
    oneshot::Sender<Result<Answer, Failure>>,
    Result<Answer, Failure>,
);

impl Writer {
    /// Writes until it is told to stop, or somebody else writes.
    pub(crate) fn run(&mut self) -> Result<(), Stopped> {
        let mut policy = self.desk.policy(&self.ahead);
        let mut priced = self.ahead.priced_at(self.ahead.now());
        let mut told = BTreeSet::new();
        let mut dirty = true;
        let mut decided_at = self.clock.now();
        let mut pace = Pace::default();
        loop {
            let wake = self.ahead.wake_at(&mut policy, decided_at);
            let (batch, stop) = self.next(dirty, wake, &pace);
            let (asked, mut seen) = apart(batch);
            let timed = self.timed();
            if let Err(error) = timed {
                self.again.append(&mut seen);
                answer_all(asked, &Failure::Clock(error));
                // It does not say that it is alive: one whose clock is right may take over.
                thread::sleep(MISTIMED);
            } else if self.trouble == Trouble::Unsure
                && let Some(error) = self.make_sure()?
            {
                self.again.append(&mut seen);
                answer_all(asked, &Failure::Store(error));
            } else if let Ok(now) = timed {
                let valid = self.ahead.priced_at(now);
                if std::mem::replace(&mut priced, valid) != valid {
                    // The price of a later moment is valid by now.
                    policy = self.desk.policy(&self.ahead);
                }
                seen.splice(..0, self.again.drain(..));
                seen.extend(self.executor.observe(now));
                pace.is_due |= dirty || wake.is_some_and(|at| at <= now);
                let (events, replies) = self.round(now, asked, &seen, &mut policy, &mut pace)?;
                if !pace.is_due {
                    decided_at = now;
                }
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
                self.conservation.look(now, &self.ahead, &self.standing);
                self.tell(now, &mut told);
            }
            if stop {
                return Ok(());
            }
        }
    }

    /// The time, where the machine's clock is believed; that it is not, and that it is again, is said.
    fn timed(&mut self) -> Result<Nanoseconds, ClockError> {
        let read = self.clock.believed();
        match read {
            Ok(_) if self.mistimed => {
                self.mistimed = false;
                self.standing.set(Stage::Writes);
            }
            Err(error) => {
                self.mistimed = true;
                self.standing.set(Stage::Mistimed(error));
            }
            Ok(_) => {}
        }
        read
    }

    /// What is asked and what is observed become events.
    fn round(
        &mut self,
        now: Nanoseconds,
        asked: Vec<Message>,
        seen: &[Observation],
        policy: &mut Policy,
        pace: &mut Pace,
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
                    let version = |ahead: &Broker| {
                        let world = ahead.world();
                        let there = (world.nodes().len(), world.kinds().len());
                        (ahead.policy_version(), ahead.priced_at(now), there)
                    };
                    let before = version(&self.ahead);
                    self.happen(now, happened, &mut events)?;
                    if version(&self.ahead) != before {
                        // From the next decision on, which comes in this round.
                        *policy = self.desk.policy(&self.ahead);
                    }
                    Ok(said)
                }
                Err(failure) => Err(failure),
            };
            replies.push((answer, said));
        }
        for observation in seen {
            let happened = self.ahead.observe_at(now, observation);
            self.happen(now, happened, &mut events)?;
        }
        let due = self.ahead.due(now);
        self.happen(now, due, &mut events)?;
        self.follow_up(now, &mut events)?;
        pace.is_due |= !events.is_empty();
        let begun = Instant::now();
        if pace.is_due && pace.rests.is_none_or(|until| until <= begun) {
            let decided = self.ahead.decide(now, policy);
            self.happen(now, decided, &mut events)?;
            pace.is_due = false;
            pace.rests = Instant::now().checked_add(begun.elapsed() * REST);
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

    /// Waits for something to do.
    fn next(&self, at_once: bool, wake: Option<Nanoseconds>, pace: &Pace) -> (Vec<Incoming>, bool) {
        let mut wait = NAP;
        // Where the log cannot be written nothing happens, however late it is.
        if self.trouble == Trouble::None {
            let rests = pace.rests.filter(|_| pace.is_due);
            if let Some(until) = rests {
                wait = wait.min(until.saturating_duration_since(Instant::now()));
            }
            // What is due is decided then, whenever it became so.
            let wakes = [wake.filter(|_| rests.is_none()), self.executor.wake_at()];
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
        let mut usage: usize = batch.iter().map(told).sum();
        while batch.len() < BATCH && usage < USAGE {
            match self.inbox.try_recv() {
                Ok(Incoming::Stop) => return (batch, true),
                Ok(more) => {
                    usage = usage.saturating_add(told(&more));
                    batch.push(more);
                }
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
            Command::SetPolicy(document, queues, seen) => {
                if seen.is_some_and(|seen| seen != self.ahead.policy_version().0) {
                    return Err(Refusal::PolicyChanged.into());
                }
                (Answer::Done, self.ahead.set_policy(*document, &queues)?)
            }
            Command::Keep(keep) => (Answer::Done, self.ahead.keep_gpus(now, &keep)?),
            Command::Withdraw(name) => (Answer::Done, self.ahead.withdraw(&name)?),
            Command::FleetFile(file) => of_fleet(self.ahead.fleet_file(now, &file)),
            Command::AddNodes(file) => of_fleet(self.ahead.add_nodes(now, &file)?),
            Command::Node {
                node,
                verb,
                end,
                by,
            } => {
                let events = self.ahead.node_told_to(&node, (verb, end), &by)?;
                (Answer::Done, events)
            }
            Command::RemoveNode(node) => (Answer::Done, self.ahead.remove_node(&node)?),
            Command::SetSecret(tenant, name) => {
                (Answer::Done, self.ahead.set_secret(&tenant, &name)?)
            }
            Command::RemoveSecret(tenant, name) => {
                (Answer::Done, self.ahead.remove_secret(&tenant, &name)?)
            }
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
                let tenant = asked.ask.tenant.clone();
                let (number, events) = self.ahead.request(now, *asked)?;
                if let Some(most) = self.waiting
                    && !events.is_empty()
                    && self.ahead.has_waiting(&tenant, most)
                {
                    return Err(Refusal::TooManyWait { tenant, most }.into());
                }
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
            of_a_service => return self.of_a_service(now, of_a_service),
        })
    }

    /// What services used, are held to, should become, and how many of them there are.
    fn of_a_service(
        &self,
        now: Nanoseconds,
        command: Command,
    ) -> Result<(Answer, Vec<BrokerEvent>), Failure> {
        Ok(match command {
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
            Command::SetScaling(number, policy) => {
                (Answer::Done, self.ahead.set_scaling(number, *policy)?)
            }
            Command::Scale(mut look) => {
                look.waiting = self.waiting;
                (Answer::Done, self.ahead.scale(now, &look))
            }
            Command::Pool(memory) => (Answer::Done, self.ahead.pool(now, memory)),
            // Others are done where they are told apart.
            _ => (Answer::Done, Vec::new()),
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

    /// Tells the executor what it has not been told.
    fn tell(&mut self, now: Nanoseconds, told: &mut BTreeSet<gpuwise_broker::OrderId>) {
        told.retain(|id| self.ahead.wants(*id));
        for order in self.ahead.orders_by(now) {
            if told.insert(order.id) {
                self.executor.take(now, &order, &self.ahead);
            }
        }
    }
}

/// What follows of a fleet file, and what is answered of it.
fn of_fleet(followed: FleetChanges) -> (Answer, Vec<BrokerEvent>) {
    (Answer::Fleet(followed.changes), followed.events)
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

/// Events of usage that are told.
const fn told(incoming: &Incoming) -> usize {
    match incoming {
        Incoming::Asked(Message {
            command: Command::Usage(told),
            ..
        }) => told.len(),
        Incoming::Asked(_) | Incoming::Observed(_) | Incoming::Stop => 0,
    }
}

fn answer_all(asked: Vec<Message>, failure: &Failure) {
    for message in asked {
        // Nobody may be waiting any more.
        let _ = message.answer.send(Err(failure.clone()));
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
