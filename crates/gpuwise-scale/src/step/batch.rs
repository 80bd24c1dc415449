//! What runs on one engine: sequences that decode together, a token each step, and prompts that wait their turn.
//!
//! Between two moments at which one of them ends, steps take equally long, so many are passed at once. Prompts are
//! computed in chunks beside what decodes, in order. Half steps are not waited for.

use super::engine::Steps;
use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

/// A request: its tokens, and when it came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Job {
    pub(super) arrived: f64,
    pub(super) prompt: f64,
    pub(super) answer: f64,
    /// Whether it was counted as late.
    pub(super) late: bool,
}

impl Job {
    /// Tokens that it takes of the cache at most.
    pub(super) fn room(&self) -> f64 {
        self.prompt + self.answer
    }
}

/// A sequence that decodes: with which step it ends, and when its first token came.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    ends: f64,
    first: f64,
    job: Job,
}

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Sequence {}

impl PartialOrd for Sequence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sequence {
    fn cmp(&self, other: &Self) -> Ordering {
        let ends = self.ends.total_cmp(&other.ends);
        ends.then(self.job.arrived.total_cmp(&other.job.arrived))
    }
}

/// What happened on an engine.
#[derive(Debug, Clone, Copy)]
pub(super) enum Happened {
    /// A prompt is computed: its first token is there.
    First(Job),
    /// An answer is complete; seconds that each of its tokens after the first took.
    Over { token: f64, job: Job },
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Until when it was run, and steps since it began.
    now: f64,
    steps: f64,
    decoding: BinaryHeap<Reverse<Sequence>>,
    /// Tokens of their contexts.
    context: f64,
    /// Prompts in order, with the tokens of each that are not computed yet.
    prompts: VecDeque<(f64, Job)>,
    /// Tokens of prompts that are not computed yet, and tokens that all that is here may come to.
    backlog: f64,
    reserved: f64,
    /// Tokens that were decoded since somebody last asked.
    decoded: f64,
    /// How long a step takes as things are, and prompt tokens in it.
    step: f64,
    chunk: f64,
    /// When the next of them ends.
    due: f64,
}

impl Batch {
    /// An engine that begins with nothing.
    pub(super) fn at(now: f64) -> Self {
        Self {
            now,
            due: f64::INFINITY,
            ..Self::default()
        }
    }

    pub(super) fn running(&self) -> u32 {
        (self.decoding.len() + self.prompts.len()) as u32
    }

    /// Prompts that a step has no room for.
    pub(super) fn waiting(&self) -> f64 {
        if self.backlog > self.chunk && self.chunk > 0.0 {
            self.prompts.len() as f64 * (1.0 - self.chunk / self.backlog)
        } else {
            0.0
        }
    }

    /// Tokens in its cache.
    pub(super) fn cached(&self) -> f64 {
        let begun = self
            .prompts
            .front()
            .map_or(0.0, |(left, job)| job.prompt - left);
        self.context + begun.max(0.0)
    }

    pub(super) fn decoded(&mut self) -> f64 {
        std::mem::take(&mut self.decoded)
    }

    /// Whether there is room for one more; on an empty engine there always is.
    pub(super) fn has_room(&self, steps: &Steps, job: &Job) -> bool {
        let running = self.running();
        running == 0 || (running < steps.sequences && self.reserved + job.room() <= steps.cache)
    }

    pub(super) fn take(&mut self, steps: &Steps, job: Job) {
        let left = (job.prompt * (1.0 - steps.cached)).max(1.0);
        self.prompts.push_back((left, job));
        self.backlog += left;
        self.reserved += job.room();
        self.retime(steps);
    }

    /// Everything that was here, in the order in which it came.
    pub(super) fn lose(&mut self) -> Vec<Job> {
        let decoding = std::mem::take(&mut self.decoding).into_iter();
        let mut all: Vec<Job> = decoding.map(|Reverse(one)| one.job).collect();
        all.extend(self.prompts.drain(..).map(|(_, job)| job));
        all.sort_by(|a, b| a.arrived.total_cmp(&b.arrived));
        (self.context, self.backlog, self.reserved) = (0.0, 0.0, 0.0);
        self.due = f64::INFINITY;
        all
    }

    /// How long steps take from now on.
    pub(super) fn retime(&mut self, steps: &Steps) {
        let sequences = self.decoding.len() as u32;
        let room = (steps.step_tokens - f64::from(sequences)).max(1.0);
        self.chunk = self.backlog.min(room);
        self.step = steps.seconds(sequences, self.context, self.chunk);
        let (left, _) = self.left();
        self.due = if left.is_finite() {
            self.now + left * self.step
        } else {
            f64::INFINITY
        };
    }

    /// Steps until the first of them ends, and whether that is a prompt.
    fn left(&self) -> (f64, bool) {
        let decode = self.decoding.peek();
        let decode = decode.map_or(f64::INFINITY, |Reverse(one)| one.ends - self.steps);
        let prompt = self.prompts.front();
        let prompt = prompt.map_or(f64::INFINITY, |(left, _)| left / self.chunk.max(1.0));
        if prompt <= decode {
            (prompt.max(0.0), true)
        } else {
            (decode.max(0.0), false)
        }
    }

    /// When something next ends.
    pub(super) const fn next(&self) -> f64 {
        self.due
    }

    /// Seconds until all that is here is over, as things are.
    pub(super) fn free(&self) -> f64 {
        let answers = self.prompts.iter().map(|(_, job)| job.answer);
        let prompts = self.backlog / self.chunk.max(1.0);
        let answers = answers.fold(0.0, f64::max) + prompts;
        let decoding = self
            .decoding
            .iter()
            .map(|Reverse(one)| one.ends - self.steps);
        decoding.fold(answers, f64::max) * self.step
    }

    /// Goes on until a time at which nothing has ended yet.
    pub(super) fn pass(&mut self, until: f64) {
        let spent = (until - self.now).max(0.0);
        self.now = until;
        if self.decoding.is_empty() && self.prompts.is_empty() {
            return;
        }
        let steps = spent / self.step;
        let tokens = steps * self.decoding.len() as f64;
        self.steps += steps;
        self.context += tokens;
        self.decoded += tokens;
        let computed = steps * self.chunk;
        if let Some((left, _)) = self.prompts.front_mut() {
            *left -= computed;
            self.backlog -= computed;
        }
    }

    /// Goes on to a time, told what ends until then, and saying whether that makes a request late.
    pub(super) fn run(
        &mut self,
        until: f64,
        steps: &Steps,
        mut told: impl FnMut(f64, Happened) -> bool,
    ) {
        while self.due <= until {
            let (_, prompt) = self.left();
            self.pass(self.due);
            let now = self.now;
            if prompt {
                let Some((left, job)) = self.prompts.pop_front() else {
                    return;
                };
                self.backlog = (self.backlog - left).max(0.0);
                self.context += job.prompt + 1.0;
                self.decoded += 1.0;
                let late = told(now, Happened::First(job));
                let job = Job {
                    late: job.late || late,
                    ..job
                };
                self.decoding.push(Reverse(Sequence {
                    ends: self.steps + job.answer - 1.0,
                    first: now,
                    job,
                }));
            } else if let Some(Reverse(one)) = self.decoding.pop() {
                self.context = (self.context - one.job.room()).max(0.0);
                self.reserved = (self.reserved - one.job.room()).max(0.0);
                let token = (now - one.first) / (one.job.answer - 1.0).max(1.0);
                told(
                    now,
                    Happened::Over {
                        token,
                        job: one.job,
                    },
                );
            } else {
                return;
            }
            self.retime(steps);
        }
        self.pass(until);
    }
}
