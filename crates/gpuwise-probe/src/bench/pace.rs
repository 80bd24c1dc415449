//! When each request is sent: a thread of its own, which does nothing else.

use super::{body::Bodies, clock::Clock, prompt::Prompts, stop::Stop};
use bytes::Bytes;
use gpuwise_domain::request::Request;
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};
use tokio::sync::mpsc::UnboundedSender;

/// The thread looks up at least so often, to see whether it is to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// In a closed loop, so many requests may wait for others of their sessions.
const MOST_PARKED: usize = 100_000;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// When they are due, with at most so many in flight. One that must wait counts from when it
    /// was due.
    Scheduled {
        /// `None`: any number.
        at_most: Option<u32>,
    },
    /// So many in flight at all times: one is due when another ends.
    InFlight(u32),
}

/// A request with its body, unless that repeats an answer that has not come yet.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    pub(crate) request: Request,
    pub(crate) body: Option<Bytes>,
}

/// A request that is to be sent now.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) request: Request,
    pub(crate) due: Nanoseconds,
    pub(crate) body: Bytes,
}

#[derive(Debug)]
pub(crate) struct EndedRequest {
    pub(crate) at: Nanoseconds,
    pub(crate) session: Option<u32>,
    /// No other of its session comes.
    pub(crate) closes: bool,
    /// What its answer is called, and its text.
    pub(crate) answer: Option<(u64, String)>,
}

/// Sends requests on their way when they are due.
pub(crate) struct Pacer {
    pub(crate) clock: Clock,
    pub(crate) pacing: Pacing,
    /// Nothing that is due later is sent.
    pub(crate) until: Option<Nanoseconds>,
    pub(crate) stop: Stop,
    pub(crate) prompts: Prompts,
    pub(crate) bodies: Bodies,
    pub(crate) source: Receiver<Ready>,
    pub(crate) workers: Vec<UnboundedSender<Job>>,
    pub(crate) freed: Receiver<EndedRequest>,
    pub(crate) start: Nanoseconds,
    pub(crate) state: State,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Requests that were made beforehand, in order.
    ahead: VecDeque<Ready>,
    exhausted: bool,
    in_flight: u32,
    sessions: BTreeMap<u32, Session>,
    parked: usize,
    /// Requests whose predecessor has ended, by when they are due.
    released: BTreeMap<(Nanoseconds, u64), Ready>,
    /// When places in flight came free, in a closed loop.
    free: VecDeque<Nanoseconds>,
    sent: u64,
    next_worker: usize,
}

/// A session that has sent something.
#[derive(Debug, Default)]
struct Session {
    /// One of its requests is in flight.
    busy: bool,
    /// When the last one ended.
    ended: Nanoseconds,
    waiting: VecDeque<Ready>,
    /// What the server said so far, which later prompts repeat. It goes with the session, so that a
    /// run holds those of open sessions alone, however long it is.
    answers: BTreeMap<u64, String>,
}

impl State {
    /// Before the start, with what was made beforehand.
    pub(crate) fn ahead(ready: impl Iterator<Item = Ready>) -> Self {
        Self {
            ahead: ready.collect(),
            ..Self::default()
        }
    }

    /// Sends nothing fresh any more; in a closed loop nothing at all is due then.
    fn end(&mut self, closed: bool) {
        self.ahead.clear();
        self.exhausted = true;
        if closed {
            self.released.clear();
            for session in self.sessions.values_mut() {
                session.waiting.clear();
            }
            self.parked = 0;
        }
    }
}

enum Next {
    Sent,
    Wait(Duration),
    Ended,
}

impl Pacer {
    /// Runs until all is sent and has ended, or it is to stop. Returns how many were sent.
    pub(crate) fn run(mut self) -> u64 {
        if let Pacing::InFlight(places) = self.pacing {
            self.state.free = vec![self.start; places as usize].into();
        }
        loop {
            while let Ok(freed) = self.freed.try_recv() {
                self.release(freed);
            }
            if self.stop.is_set() {
                break;
            }
            match self.next() {
                Next::Sent => {}
                Next::Ended => break,
                Next::Wait(duration) => {
                    match self.freed.recv_timeout(duration.min(LONGEST_SLEEP)) {
                        Ok(freed) => self.release(freed),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => break,
                    }
                }
            }
        }
        self.state.sent
    }

    fn next(&mut self) -> Next {
        let now = self.clock.now();
        // What is late was due before, and is sent all the same: else a slow client hid it.
        let over = match (self.until, self.pacing) {
            (None, _) => false,
            (Some(until), Pacing::InFlight(_)) => now >= until,
            (Some(until), Pacing::Scheduled { .. }) => {
                self.look_ahead();
                let next = self.state.ahead.front().map(|ready| self.due(ready));
                next.is_some_and(|due| due >= until)
            }
        };
        if over {
            self.state.end(matches!(self.pacing, Pacing::InFlight(_)));
        }
        match self.pacing {
            Pacing::Scheduled { at_most } => self.next_scheduled(now, at_most),
            Pacing::InFlight(_) => self.next_in_flight(now),
        }
    }

    fn next_scheduled(&mut self, now: Nanoseconds, at_most: Option<u32>) -> Next {
        if at_most.is_some_and(|most| self.state.in_flight >= most) {
            return Next::Wait(LONGEST_SLEEP);
        }
        self.look_ahead();
        let fresh = self.state.ahead.front().map(|ready| self.due(ready));
        let released = self.state.released.keys().next().map(|(due, _)| *due);
        let due = match (fresh, released) {
            (None, None) => return self.idle(),
            (Some(fresh), Some(released)) => fresh.min(released),
            (Some(due), None) | (None, Some(due)) => due,
        };
        if due > now {
            return Next::Wait(Duration::from_nanos(due.0 - now.0));
        }
        if released == Some(due) {
            if let Some((_, ready)) = self.state.released.pop_first() {
                self.send(ready, due);
            }
        } else if let Some(ready) = self.state.ahead.pop_front()
            && let Some((ready, due)) = self.sendable(ready, now)
        {
            self.send(ready, due);
        }
        Next::Sent
    }

    fn next_in_flight(&mut self, now: Nanoseconds) -> Next {
        let Some(since) = self.state.free.front().copied() else {
            return Next::Wait(LONGEST_SLEEP);
        };
        if since > now {
            return Next::Wait(Duration::from_nanos(since.0 - now.0));
        }
        let released = self.state.released.first_key_value().map(|(key, _)| *key);
        if let Some((due, _)) = released.filter(|(due, _)| *due <= now)
            && let Some((_, ready)) = self.state.released.pop_first()
        {
            self.state.free.pop_front();
            self.send(ready, since.max(due));
            return Next::Sent;
        }
        while self.state.parked < MOST_PARKED {
            self.look_ahead();
            let Some(ready) = self.state.ahead.pop_front() else {
                break;
            };
            if let Some((ready, due)) = self.sendable(ready, now) {
                self.state.free.pop_front();
                self.send(ready, since.max(due));
                return Next::Sent;
            }
        }
        match self.state.released.first_key_value() {
            Some(((due, _), _)) => Next::Wait(Duration::from_nanos(due.0.saturating_sub(now.0))),
            None => self.idle(),
        }
    }

    /// Nothing can be sent: waits for what is in flight.
    fn idle(&self) -> Next {
        if self.state.in_flight == 0 && self.state.parked == 0 {
            Next::Ended
        } else {
            Next::Wait(LONGEST_SLEEP)
        }
    }

    /// When a request is due by itself; in a closed loop at once.
    fn due(&self, ready: &Ready) -> Nanoseconds {
        match self.pacing {
            Pacing::Scheduled { .. } => self.start + ready.request.due,
            Pacing::InFlight(_) => self.start,
        }
    }

    fn look_ahead(&mut self) {
        if !self.state.ahead.is_empty() || self.state.exhausted {
            return;
        }
        match self.source.recv() {
            Ok(ready) => self.state.ahead.push_back(ready),
            Err(_) => self.state.exhausted = true,
        }
    }

    /// The request and when it is due, if that is now; else it waits for an earlier one of its
    /// session, or until its client has thought.
    fn sendable(&mut self, ready: Ready, now: Nanoseconds) -> Option<(Ready, Nanoseconds)> {
        let mut due = self.due(&ready);
        let Some(session) = ready.request.session else {
            return Some((ready, due));
        };
        if let Some(session) = self.state.sessions.get_mut(&session) {
            if session.busy {
                session.waiting.push_back(ready);
                self.state.parked += 1;
                return None;
            }
            due = due.max(session.ended + ready.request.think);
            // Whatever comes meanwhile of this session waits for this one.
            session.busy = true;
        }
        if due > now {
            self.state.released.insert((due, ready.number), ready);
            return None;
        }
        Some((ready, due))
    }

    fn send(&mut self, ready: Ready, due: Nanoseconds) {
        let Ready {
            number,
            request,
            body,
        } = ready;
        if let Some(session) = request.session {
            self.state.sessions.entry(session).or_default().busy = true;
        }
        let body = body.unwrap_or_else(|| {
            let nothing = BTreeMap::new();
            let session = request
                .session
                .and_then(|name| self.state.sessions.get(&name));
            let answers = session.map_or(&nothing, |session| &session.answers);
            let turns = self.prompts.turns(number, &request, answers);
            self.bodies.of(&turns, request.output)
        });
        let job = Job {
            number,
            request,
            due,
            body,
        };
        self.state.in_flight += 1;
        self.state.sent += 1;
        self.state.next_worker = (self.state.next_worker + 1) % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(self.state.next_worker) {
            // A worker that is gone has its reason in the result of its thread.
            let _ = worker.send(job);
        }
    }

    fn release(&mut self, freed: EndedRequest) {
        self.state.in_flight = self.state.in_flight.saturating_sub(1);
        if matches!(self.pacing, Pacing::InFlight(_)) {
            self.state.free.push_back(freed.at);
        }
        let Some(name) = freed.session else {
            return;
        };
        let Some(session) = self.state.sessions.get_mut(&name) else {
            return;
        };
        if freed.closes && session.waiting.is_empty() {
            self.state.sessions.remove(&name);
            return;
        }
        session.answers.extend(freed.answer);
        session.busy = false;
        session.ended = freed.at;
        if let Some(ready) = session.waiting.pop_front() {
            session.busy = true;
            self.state.parked = self.state.parked.saturating_sub(1);
            let due = self.due(&ready).max(freed.at + ready.request.think);
            self.state.released.insert((due, ready.number), ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{body::Dialect, prompt::Calibration, target::Interface};
    use gpuwise_domain::request::Segment;
    use serde_json::Map;
    use std::sync::mpsc;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const SESSIONS: u32 = 40;
    const ROUNDS: u32 = 3;

    /// A pacer of conversations, round by round, and what it sends.
    fn pacer() -> (Pacer, UnboundedReceiver<Job>) {
        let round = |session: u32, round: u32| Ready {
            number: u64::from(round * SESSIONS + session),
            request: Request {
                input: 20,
                output: 2,
                session: Some(session),
                answer: Some(u64::from(session * 10 + round)),
                closes: round + 1 == ROUNDS,
                prefix: Some(
                    (0..round)
                        .map(|before| Segment {
                            content: u64::from(session * 10 + before),
                            tokens: 4,
                        })
                        .collect(),
                ),
                ..Request::default()
            },
            body: None,
        };
        let all = (0..ROUNDS).flat_map(|at| (0..SESSIONS).map(move |one| round(one, at)));
        let (_, source) = mpsc::sync_channel(1);
        let (_, freed) = mpsc::channel();
        let (worker, jobs) = unbounded_channel();
        let pacer = Pacer {
            clock: Clock::start(),
            pacing: Pacing::Scheduled { at_most: None },
            until: None,
            stop: Stop::default(),
            prompts: Prompts {
                seed: 1,
                own_seed: 1,
                calibration: Calibration::default(),
            },
            bodies: Bodies {
                model: "tiny".into(),
                interface: Interface::Chat,
                stream: true,
                dialect: Dialect::ALL[0],
                extra: Map::new(),
            },
            source,
            workers: vec![worker],
            freed,
            start: Nanoseconds(0),
            state: State::ahead(all),
        };
        (pacer, jobs)
    }

    /// Answers of open conversations alone are held, and repeated by the prompts that follow.
    #[test]
    fn what_is_over_is_forgotten() {
        let (mut pacer, mut jobs) = pacer();
        let (mut sent, mut repeated, mut most) = (0, 0, 0);
        loop {
            let next = pacer.next();
            while let Ok(job) = jobs.try_recv() {
                sent += 1;
                let body = String::from_utf8_lossy(&job.body).into_owned();
                repeated += body.matches("said before").count();
                let session = job.request.session;
                pacer.release(EndedRequest {
                    at: Nanoseconds(1),
                    session,
                    closes: job.request.closes,
                    answer: job.request.answer.map(|name| (name, "said before".into())),
                });
            }
            let held = pacer.state.sessions.values();
            most = most.max(held.map(|session| session.answers.len()).sum::<usize>());
            if matches!(next, Next::Ended) {
                break;
            }
        }
        assert_eq!(sent, SESSIONS * ROUNDS);
        // The second round repeats one answer, the third two.
        assert_eq!(repeated, SESSIONS as usize * 3);
        assert!(most >= SESSIONS as usize);
        assert!(pacer.state.sessions.is_empty(), "nothing is left");
    }
}
