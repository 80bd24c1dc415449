//! Requests as such: each comes, waits for room in a replica, runs, and is over.

use super::{
    outcome::StepOutcome,
    replicas::{Replicas, State},
};
use crate::variant::Variant;
use gpuwise_units::RandomStream;
use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

/// How long requests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lengths {
    /// Each as long as the mean.
    Fixed,
    /// Exponential: answers' lengths are about that in production (ServeGen, arXiv:2505.09999).
    #[default]
    Exponential,
}

/// A request that runs.
#[derive(Debug, Clone, Copy)]
struct Run {
    ends: f64,
    replica: usize,
    arrived: f64,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Self) -> Ordering {
        let time = self.ends.total_cmp(&other.ends);
        time.then(self.replica.cmp(&other.replica))
            .then(self.arrived.total_cmp(&other.arrived))
    }
}

#[derive(Debug)]
pub(super) struct Requests {
    lengths: Lengths,
    stream: RandomStream,
    runs: BinaryHeap<Reverse<Run>>,
    /// When each that waits came, the first first.
    queue: VecDeque<f64>,
    /// How many of them, from the first on, have been counted as late.
    counted: usize,
    /// Replicas that take requests, whose turn it is, and room in all of them.
    open: Vec<usize>,
    turn: usize,
    room: u32,
    /// Mean seconds of a request by variant.
    means: Vec<f64>,
}

impl Requests {
    pub(super) fn new(variants: &[Variant], lengths: Lengths, stream: RandomStream) -> Self {
        let means = variants
            .iter()
            .map(|one| f64::from(super::replicas::slots(one)) / one.rate);
        Self {
            lengths,
            stream,
            runs: BinaryHeap::new(),
            queue: VecDeque::new(),
            counted: 0,
            open: Vec::new(),
            turn: 0,
            room: 0,
            means: means.collect(),
        }
    }

    pub(super) fn queued(&self) -> f64 {
        self.queue.len() as f64
    }

    pub(super) fn running(&self) -> f64 {
        self.runs.len() as f64
    }

    /// Seconds until each replica has none of its requests left.
    pub(super) fn frees(&self, now: f64, replicas: usize) -> Vec<f64> {
        let mut frees = vec![0.0_f64; replicas];
        for Reverse(run) in &self.runs {
            if let Some(slot) = frees.get_mut(run.replica) {
                *slot = slot.max(run.ends - now);
            }
        }
        frees
    }

    /// A replica is gone: what ran on it begins anew, before all that waits, and is late.
    pub(super) fn lose(&mut self, replica: usize, out: &mut StepOutcome) {
        let (lost, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.runs)
            .into_iter()
            .partition(|Reverse(run)| run.replica == replica);
        self.runs = kept.into();
        let mut arrived: Vec<f64> = lost.iter().map(|Reverse(run)| run.arrived).collect();
        arrived.sort_by(f64::total_cmp);
        for at in arrived.into_iter().rev() {
            self.queue.push_front(at);
            self.counted += 1;
            out.late += 1.0;
            out.restarted += 1.0;
        }
    }

    /// From one time to another, with requests that come in between, in order.
    pub(super) fn run(
        &mut self,
        (now, until): (f64, f64),
        arrivals: &[f64],
        wait: f64,
        replicas: &mut Replicas,
        out: &mut StepOutcome,
    ) {
        self.open.clear();
        self.room = 0;
        for (at, one) in replicas.all.iter().enumerate() {
            if one.state == State::Ready {
                self.open.push(at);
                self.room += one.slots - one.running;
            }
        }
        if self.open.is_empty() {
            out.held += arrivals.len() as f64;
        }
        self.fill(now, wait, replicas, out);
        let mut arrivals = arrivals.iter().copied().peekable();
        loop {
            let ends = self
                .runs
                .peek()
                .map_or(f64::INFINITY, |Reverse(run)| run.ends);
            let comes = arrivals.peek().copied().unwrap_or(f64::INFINITY);
            if ends.min(comes) >= until {
                break;
            }
            if ends <= comes {
                if let Some(Reverse(run)) = self.runs.pop() {
                    self.end(&run, replicas);
                }
                self.fill(ends, wait, replicas, out);
            } else {
                arrivals.next();
                out.requests += 1.0;
                self.queue.push_back(comes);
                self.fill(comes, wait, replicas, out);
            }
        }
        while self
            .queue
            .get(self.counted)
            .is_some_and(|at| at + wait < until)
        {
            self.counted += 1;
            out.late += 1.0;
        }
    }

    fn end(&mut self, run: &Run, replicas: &mut Replicas) {
        if let Some(one) = replicas.all.get_mut(run.replica) {
            one.running = one.running.saturating_sub(1);
            self.room += u32::from(one.state == State::Ready);
        }
    }

    /// Starts those that wait, as long as there is room.
    fn fill(&mut self, now: f64, wait: f64, replicas: &mut Replicas, out: &mut StepOutcome) {
        while self.room > 0 && !self.queue.is_empty() {
            let Some(arrived) = self.queue.pop_front() else {
                return;
            };
            if self.counted > 0 {
                self.counted -= 1;
            } else if now - arrived > wait {
                out.late += 1.0;
            }
            self.start(now, arrived, replicas);
        }
    }

    /// On the next replica in turn that has room.
    fn start(&mut self, now: f64, arrived: f64, replicas: &mut Replicas) {
        for _ in 0..self.open.len() {
            self.turn = (self.turn + 1) % self.open.len().max(1);
            let Some(at) = self.open.get(self.turn).copied() else {
                return;
            };
            let Some(one) = replicas
                .all
                .get_mut(at)
                .filter(|one| one.running < one.slots)
            else {
                continue;
            };
            one.running += 1;
            self.room -= 1;
            let mean = self.means.get(one.variant).copied().unwrap_or(0.0);
            let length = match self.lengths {
                Lengths::Fixed => mean,
                Lengths::Exponential => -libm::log1p(-self.stream.uniform()) * mean,
            };
            self.runs.push(Reverse(Run {
                ends: now + length,
                replica: at,
                arrived,
            }));
            return;
        }
    }
}
