//! What a run tells while it goes, and at its end.

use crate::{
    engine::{Load, Statistics, StepRun},
    metrics::Recorder,
};
use gpuwise_domain::request::{Outcome, RequestRecord};
use gpuwise_units::Nanoseconds;

/// Listens to a run. Nothing is paid for what is left empty. Times inside of engines are picoseconds
/// from the start of the run, others nanoseconds. What is told does not depend on who listens.
pub trait Observer {
    fn record(&mut self, _record: &RequestRecord) {}
    fn steps(&mut self, _replica: u16, _run: &StepRun) {}
    /// So many tokens came `gap` picoseconds after the one before them, other than by one step.
    fn gaps(&mut self, _replica: u16, _time: u64, _gap: u64, _tokens: u32) {}
    /// A request lost its place.
    fn preempted(&mut self, _replica: u16, _time: u64, _number: u64) {}
    /// The state at the end of an interval.
    fn sample(&mut self, _sample: &Sample<'_>) {}
    /// A replica is now in another state.
    fn replica(&mut self, _time: Nanoseconds, _replica: u16, _state: ReplicaState) {}
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NullObserver;

impl Observer for NullObserver {}

impl Observer for Recorder {
    fn record(&mut self, record: &RequestRecord) {
        self.request(record);
    }

    fn steps(&mut self, _replica: u16, run: &StepRun) {
        Self::steps(self, run);
    }

    fn gaps(&mut self, _replica: u16, time: u64, gap: u64, tokens: u32) {
        Self::gaps(self, time, gap, tokens);
    }
}

/// Two that listen to the same.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn record(&mut self, record: &RequestRecord) {
        self.0.record(record);
        self.1.record(record);
    }

    fn steps(&mut self, replica: u16, run: &StepRun) {
        self.0.steps(replica, run);
        self.1.steps(replica, run);
    }

    fn gaps(&mut self, replica: u16, time: u64, gap: u64, tokens: u32) {
        self.0.gaps(replica, time, gap, tokens);
        self.1.gaps(replica, time, gap, tokens);
    }

    fn preempted(&mut self, replica: u16, time: u64, number: u64) {
        self.0.preempted(replica, time, number);
        self.1.preempted(replica, time, number);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.0.sample(sample);
        self.1.sample(sample);
    }

    fn replica(&mut self, time: Nanoseconds, replica: u16, state: ReplicaState) {
        self.0.replica(time, replica, state);
        self.1.replica(time, replica, state);
    }
}

impl<O: Observer> Observer for &mut O {
    fn record(&mut self, record: &RequestRecord) {
        (**self).record(record);
    }

    fn steps(&mut self, replica: u16, run: &StepRun) {
        (**self).steps(replica, run);
    }

    fn gaps(&mut self, replica: u16, time: u64, gap: u64, tokens: u32) {
        (**self).gaps(replica, time, gap, tokens);
    }

    fn preempted(&mut self, replica: u16, time: u64, number: u64) {
        (**self).preempted(replica, time, number);
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        (**self).sample(sample);
    }

    fn replica(&mut self, time: Nanoseconds, replica: u16, state: ReplicaState) {
        (**self).replica(time, replica, state);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaState {
    /// It is coming up.
    Starting,
    Ready,
    /// It ends what it has and takes nothing more.
    Draining,
    /// It died and is to come back.
    Down,
    /// It is no more.
    Gone,
}

/// The state of a cluster at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    pub time: Nanoseconds,
    /// Requests that clients have sent and that are not over.
    pub in_flight: u64,
    /// Of these, how many wait at gateways.
    pub held: u64,
    pub replicas: &'a [ReplicaSample],
}

/// The state of a replica at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaSample {
    pub pool: u16,
    pub state: ReplicaState,
    pub load: Load,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunStatistics {
    /// Requests that clients meant to send.
    pub requests: u64,
    /// How many of them ended in each way, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Times that a request was sent again.
    pub retries: u64,
    /// Retries left out because the budget was spent.
    pub retries_spared: u64,
    /// When the last thing happened.
    pub end: Nanoseconds,
    /// Most requests that waited at a gateway at a time.
    pub most_held: u64,
    pub moves: Moves,
    /// Each replica, by its number.
    pub replicas: Vec<ReplicaStatistics>,
    /// What the run could not know, in words.
    pub unknown: Vec<String>,
    /// The integral over time of the requests that are due or sent and not over, in nanoseconds; the
    /// sum of their times if no request was lost (Little's law).
    pub presence: u128,
    /// The sum of the times of requests from when they were due, or sent where that was earlier, to
    /// their end.
    pub residence: u128,
}

impl RunStatistics {
    /// How many requests ended this way.
    pub fn count(&self, outcome: Outcome) -> u64 {
        let counts = Outcome::ALL.iter().zip(self.outcomes);
        counts
            .filter(|(other, _)| **other == outcome)
            .map(|(_, count)| count)
            .sum()
    }

    /// Seconds for which replicas were kept, from the beginning of their start.
    pub fn replica_seconds(&self) -> f64 {
        self.replicas
            .iter()
            .map(|replica| replica.kept.0 as f64 * 1e-9)
            .sum()
    }
}

/// KV caches moved between replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moves {
    pub count: u64,
    /// Bytes in all.
    pub bytes: u128,
    /// Time under way in all, without waiting.
    pub busy: Nanoseconds,
    /// Time that they waited for a link in all.
    pub waited: Nanoseconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaStatistics {
    pub pool: u16,
    pub engine: Statistics,
    /// How long it was kept, from the beginning of its start; while it is down it is.
    pub kept: Nanoseconds,
    /// How long it served.
    pub ready: Nanoseconds,
    /// Times that it died.
    pub failures: u32,
}
