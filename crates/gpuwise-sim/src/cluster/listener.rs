//! Listens to engines.

use super::{clock::Clock, observer::Observer};
use crate::engine::{Done, Sink, StepRun, Ticket};
use std::collections::VecDeque;

/// What engines tell of requests, with the replica that told it.
#[derive(Debug)]
pub(super) enum EngineEvent {
    /// A request is over there.
    Over(u16, Done),
    /// A request has its blocks, and waits for its cache.
    Taken(u64, Ticket),
    /// A request was planned first, where the engine's time is not the run's.
    Scheduled(u64, u64),
    /// Its first token is out, where the engine's time is not the run's.
    First(u64, u64),
}

/// Hears an engine out.
pub(super) struct EngineListener<'a, O> {
    pub(super) observer: &'a mut O,
    pub(super) events: &'a mut VecDeque<EngineEvent>,
    pub(super) replica: u16,
    pub(super) clock: Option<&'a Clock>,
}

impl<O> EngineListener<'_, O> {
    fn time(&self, own: u64) -> u64 {
        self.clock.map_or(own, |clock| clock.run(own))
    }
}

impl<O: Observer> Sink for EngineListener<'_, O> {
    fn scheduled(&mut self, time: u64, number: u64) {
        if self.clock.is_some() {
            self.events
                .push_back(EngineEvent::Scheduled(self.time(time), number));
        }
    }

    fn first_token(&mut self, time: u64, number: u64) {
        if self.clock.is_some() {
            self.events
                .push_back(EngineEvent::First(self.time(time), number));
        }
    }

    fn preempted(&mut self, time: u64, number: u64) {
        self.observer
            .preempted(self.replica, self.time(time), number);
    }

    fn blocks_taken(&mut self, _time: u64, ticket: Ticket, number: u64) {
        self.events.push_back(EngineEvent::Taken(number, ticket));
    }

    fn gaps(&mut self, time: u64, gap: u64, tokens: u32) {
        let end = self.time(time);
        let gap = self.clock.map_or(gap, |clock| {
            end - clock.run(time.saturating_sub(gap)).min(end)
        });
        self.observer.gaps(self.replica, end, gap, tokens);
    }

    fn steps(&mut self, run: &StepRun) {
        match self.clock {
            None => self.observer.steps(self.replica, run),
            Some(clock) => self.observer.steps(self.replica, &stretched(run, clock)),
        }
    }

    fn ended(&mut self, mut done: Done) {
        done.end = self.time(done.end);
        self.events.push_back(EngineEvent::Over(self.replica, done));
    }
}

/// The same steps by the run's time. Where others began or ended in the middle, the time that all of
/// them took longer is spread over them evenly.
fn stretched(run: &StepRun, clock: &Clock) -> StepRun {
    let (start, end) = (clock.run(run.start), clock.run(run.end()));
    let (own, taken) = (run.duration().max(1), end.saturating_sub(start));
    let scaled = |time: u64| (u128::from(time) * u128::from(taken) / u128::from(own)) as u64;
    StepRun {
        start,
        first: scaled(run.first),
        increment: scaled(run.increment),
        ..*run
    }
}
