//! Jobs that wait or run.

use super::{
    seldom::Seldom,
    stints::Stint,
    trouble::Trouble,
    underway::{Before, Doing, Underway},
};
use gpuwise_domain::placement::{Assignment, Attempt, GpuId, Job, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct JobState {
    pub job: Job,
    pub phase: Phase,
    /// Where its workers are; empty while it waits. While it is reclaimed they name the nodes whose
    /// processor time and memory it keeps, and no GPU.
    pub assignments: Vec<Assignment>,
    /// How often it was stopped or lost its place.
    pub stops: u32,
    /// Since when it has held what it holds now.
    pub seated: Nanoseconds,
    /// Thousandths of GPUs times nanoseconds that it held until `seated`.
    pub served: u128,
    /// What it had done when its assignments last changed: time at speed 1000 with its preferred number of
    /// workers, to its last checkpoint where it was stopped.
    pub done: Nanoseconds,
    /// How busy its GPUs were when last measured, in thousandths of the time.
    pub busy_milli: Option<u32>,
    pub idle: IdleTracker,
    /// Since when it has work again, while its GPUs are reclaimed.
    pub wanted: Option<Nanoseconds>,
    /// Whether it was told to stop and may still run where it was.
    pub stopping: bool,
    /// GPUs where it may still be though it was told to leave.
    pub leaving: Seldom<GpuId>,
    /// Nodes where its workers may still be though they were told to leave, once for each.
    pub(super) leaving_hosts: Seldom<NodeId>,
    /// The last action that began on it.
    pub attempt: Attempt,
    pub(super) start: Option<Box<Underway>>,
    pub(super) stop: Option<Box<Underway>>,
    pub(super) trouble: Option<Box<Trouble>>,
    /// Whether it is held back: it does not start.
    pub hold: bool,
    /// What it had saved when it last said so.
    pub checkpoint: Option<Nanoseconds>,
    /// What a worker needs from its next start on, where that has changed.
    pub(super) next_ask: Option<Box<WorkerAsk>>,
    /// Where it ran before it ran where it is.
    pub(super) stints: Seldom<Stint>,
}

impl JobState {
    pub(super) fn new(job: &Job, at: Nanoseconds, attempt: Attempt) -> Self {
        Self {
            job: job.clone(),
            phase: Phase::Waiting { since: at },
            assignments: Vec::new(),
            stops: 0,
            seated: at,
            served: 0,
            done: Nanoseconds(0),
            busy_milli: None,
            idle: IdleTracker::default(),
            wanted: None,
            stopping: false,
            leaving: Seldom::new(),
            leaving_hosts: Seldom::new(),
            attempt,
            start: None,
            stop: None,
            trouble: None,
            hold: false,
            checkpoint: None,
            next_ask: None,
            stints: Seldom::new(),
        }
    }

    /// Nodes where its workers may still be though they were told to leave, once for each.
    pub fn leaving_hosts(&self) -> &[NodeId] {
        &self.leaving_hosts
    }

    /// What a worker needs from its next start on, where that has changed.
    pub fn next_ask(&self) -> Option<&WorkerAsk> {
        self.next_ask.as_deref()
    }

    /// What is begun on it, with how it goes on if that does not succeed.
    pub(super) fn begins(&mut self, mut one: Underway, old: Vec<Assignment>) -> Underway {
        one.before = match self.start.take() {
            Some(earlier) => earlier.before,
            None if one.doing == Doing::Place => None,
            None => {
                let before = Before::new(old, self.phase, self.done, self.wanted);
                Some(Box::new(before))
            }
        };
        one
    }

    /// Where nothing of it is anywhere, what its workers need from now on counts.
    pub(super) fn fresh_ask(&mut self) {
        let nowhere =
            self.assignments.is_empty() && self.leaving.is_empty() && self.leaving_hosts.is_empty();
        if nowhere && let Some(ask) = self.next_ask.take() {
            self.job.worker = *ask;
        }
    }

    /// It has no place any more.
    pub(super) fn rest(&mut self, phase: Phase) {
        self.phase = phase;
        self.stops += 1;
        self.wanted = None;
        self.idle = IdleTracker::default();
    }

    /// Whether it is to get GPUs: it waits, or was idle and has work again.
    pub const fn seeks(&self) -> bool {
        self.phase.waits() || self.wanted.is_some()
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
