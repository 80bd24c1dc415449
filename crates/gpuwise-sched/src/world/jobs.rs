//! Jobs that wait or run.

use super::{
    Rare, StoredJob,
    seldom::Seldom,
    underway::{Before, Doing, Underway},
};
use gpuwise_domain::placement::{Assignment, Attempt, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct JobState {
    pub job: StoredJob,
    pub phase: Phase,
    /// Where its workers are; empty while it waits. While it is reclaimed they name the nodes whose
    /// processor time and memory it keeps, and no GPU.
    pub assignments: Vec<Assignment>,
    /// How often it was stopped or lost its place.
    pub stops: u32,
    /// Since when it has held what it holds now.
    pub seated: Nanoseconds,
    /// [`JobState::served`] in two halves: a number of 128 bits would make every row larger by its alignment.
    served: [u64; 2],
    /// What it had done when its assignments last changed: time at speed 1000 with its preferred number of
    /// workers, to its last checkpoint where it was stopped.
    pub done: Nanoseconds,
    /// How busy its GPUs were when last measured, in thousandths of the time.
    pub busy_milli: Option<u32>,
    pub idle: IdleTracker,
    /// Whether it was told to stop and may still run where it was.
    pub stopping: bool,
    /// Whether it is held back: it does not start.
    pub hold: bool,
    /// The last action that began on it.
    pub attempt: Attempt,
    pub(super) start: Option<Box<Underway>>,
    pub rare: Rare,
}

impl JobState {
    pub(super) fn new(job: StoredJob, at: Nanoseconds, attempt: Attempt) -> Self {
        Self {
            job,
            phase: Phase::Waiting { since: at },
            assignments: Vec::new(),
            stops: 0,
            seated: at,
            served: [0; 2],
            done: Nanoseconds(0),
            busy_milli: None,
            idle: IdleTracker::default(),
            stopping: false,
            hold: false,
            attempt,
            start: None,
            rare: Rare::new(),
        }
    }

    /// Thousandths of GPUs times nanoseconds that it held until `seated`.
    pub const fn served(&self) -> u128 {
        let [high, low] = self.served;
        (high as u128) << 64 | low as u128
    }

    pub(super) const fn serve(&mut self, more: u128) {
        let all = self.served() + more;
        self.served = [(all >> 64) as u64, all as u64];
    }

    /// Nodes where its workers may still be though they were told to leave, once for each.
    pub fn leaving_hosts(&self) -> &[NodeId] {
        &self.rare.leaving_hosts
    }

    /// What a worker needs from its next start on, where that has changed.
    pub fn next_ask(&self) -> Option<&WorkerAsk> {
        self.rare.next_ask.as_deref()
    }

    /// Whether it may still be somewhere though it was told to leave.
    pub fn is_leaving(&self) -> bool {
        !(self.rare.leaving.is_empty() && self.rare.leaving_hosts.is_empty())
    }

    /// What is begun on it, with how it goes on if that does not succeed.
    pub(super) fn begins(&mut self, mut one: Underway, old: Vec<Assignment>) -> Underway {
        one.before = match self.start.take() {
            Some(earlier) => earlier.before,
            None if one.doing == Doing::Place => None,
            None => {
                let before = Before::new(old, self.phase, self.done, self.rare.wanted);
                Some(Box::new(before))
            }
        };
        one
    }

    /// Where nothing of it is anywhere, what its workers need from now on counts.
    pub(super) fn fresh_ask(&mut self) {
        if self.rare.next_ask.is_some()
            && self.assignments.is_empty()
            && !self.is_leaving()
            && let Some(ask) = self.rare.change(|rare| rare.next_ask.take())
        {
            self.job.worker = *ask;
        }
    }

    /// It has no place any more.
    pub(super) fn rest(&mut self, phase: Phase) {
        self.phase = phase;
        self.stops += 1;
        self.rare.not_wanted();
        self.busy_milli = None;
        self.idle = IdleTracker::default();
    }

    /// How busy it is was measured. What it did before its first measurement is not known, and no idle time.
    pub(super) fn measured(&mut self, at: Nanoseconds, busy_milli: u32) {
        if self.busy_milli.replace(busy_milli).is_none() {
            self.idle.note(at, u32::MAX);
        }
        self.idle.note(at, busy_milli);
    }

    /// Whether it is to get GPUs: it waits, or was idle and has work again.
    pub fn seeks(&self) -> bool {
        self.phase.waits() || self.rare.wanted.is_some()
    }

    /// Since when it has been at most so busy: measured, and never above it since. `None`: it is not.
    pub fn idle_since(&self, busy_milli: u32) -> Option<Nanoseconds> {
        let Phase::Running { since } = self.phase else {
            return None;
        };
        (self.busy_milli? <= busy_milli).then(|| since.max(self.idle.since(busy_milli)))
    }
}

/// The last times at which a job was busy, by how busy: enough to say since when it has been below any
/// threshold. Of more than eight the two oldest become one, which can only make it look busier.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct IdleTracker {
    /// How busy, falling; and when that was last so.
    peaks: Seldom<(u32, Nanoseconds)>,
}

impl IdleTracker {
    const MOST: usize = 8;

    pub(super) fn note(&mut self, at: Nanoseconds, busy_milli: u32) {
        while self
            .peaks
            .last()
            .is_some_and(|(busy, _)| *busy <= busy_milli)
        {
            self.peaks.pop();
        }
        self.peaks.push((busy_milli, at));
        if self.peaks.len() > Self::MOST
            && let Some((busiest, _)) = self.peaks.take(0)
            && let Some(next) = self.peaks.first_mut()
        {
            next.0 = busiest;
        }
    }

    /// When it was last busier than this; 0: never.
    pub fn since(&self, busy_milli: u32) -> Nanoseconds {
        let above = self.peaks.iter().rev().find(|(busy, _)| *busy > busy_milli);
        above.map_or(Nanoseconds(0), |(_, at)| *at)
    }
}

/// Whether a job waits, starts or runs, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    Waiting {
        since: Nanoseconds,
    },
    /// Its assignments are held, and it is being started, moved or resized.
    Starting {
        since: Nanoseconds,
    },
    Running {
        since: Nanoseconds,
    },
    /// It was idle, and others have its GPUs; it gets some back when it has work again.
    Reclaimed {
        since: Nanoseconds,
    },
}

impl Phase {
    pub const fn since(self) -> Nanoseconds {
        match self {
            Self::Waiting { since }
            | Self::Starting { since }
            | Self::Running { since }
            | Self::Reclaimed { since } => since,
        }
    }

    /// Whether it has assignments with what it asked for.
    pub const fn holds_gpus(self) -> bool {
        matches!(self, Self::Starting { .. } | Self::Running { .. })
    }

    /// Whether it waits for a place.
    pub const fn waits(self) -> bool {
        matches!(self, Self::Waiting { .. })
    }
}
