//! What an engine tells while it runs.

use super::Ticket;
use gpuwise_domain::request::{Outcome, Request};

/// Listens to an engine. Nothing is paid for what is left empty. Times are picoseconds from the start
/// of the run, as steps end in the engine: what lies between it and the client is not in them.
pub trait Sink {
    /// A request is planned into a step for the first time.
    fn scheduled(&mut self, _time: u64, _number: u64) {}
    /// A request's first token is out.
    fn first_token(&mut self, _time: u64, _number: u64) {}
    /// A request was preempted: it is recomputed.
    fn preempted(&mut self, _time: u64, _number: u64) {}
    /// A request of [`super::Role::Decode`] has its blocks: its cache may come.
    fn blocks_taken(&mut self, _time: u64, _ticket: Ticket, _number: u64) {}
    /// So many tokens came `gap` picoseconds after the one before them, other than by one step.
    fn gaps(&mut self, _time: u64, _gap: u64, _tokens: u32) {}
    fn steps(&mut self, _run: &StepRun) {}
    /// A request is over.
    fn ended(&mut self, _done: Done) {}
}

#[derive(Debug, Clone, Copy, Default)]
pub struct NullSink;

impl Sink for NullSink {}

/// What became of a request in an engine, which hands it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The number that it was submitted under.
    pub number: u64,
    /// What it was submitted as; under [`super::Role::Prefill`] it holds its blocks by this ticket.
    pub ticket: Ticket,
    pub request: Request,
    pub submitted: u64,
    /// When it was first planned into a step.
    pub scheduled: Option<u64>,
    /// When its first token was out.
    pub first_token: Option<u64>,
    /// When its last token was out, or when it was aborted.
    pub end: u64,
    pub generated: u32,
    /// Prompt tokens found in the prefix cache when it was first planned.
    pub cached: u32,
    /// Times that it lost its place.
    pub preemptions: u16,
    pub outcome: Outcome,
}

/// Steps of the same batch, one after the other: step `i` takes `first + i · increment` picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepRun {
    /// When the first began.
    pub start: u64,
    /// How many there were.
    pub steps: u32,
    /// Picoseconds of the first.
    pub first: u64,
    /// Picoseconds that each takes longer than the one before.
    pub increment: u64,
    /// Sequences that decoded in each, over all ranks.
    pub decodes: u32,
    /// Of those, how many had their token before at the beginning of the first step: for these, and
    /// for all in later steps, the gap between tokens is the step. Others come as [`Sink::gaps`].
    /// Drafts that are right come with the token before them, without a gap.
    pub regular: u32,
    pub tokens: u32,
    /// Prompt tokens computed; of a single step.
    pub prefill: u32,
    /// Tokens of context that the decodes of the first step attended to; each later step adds
    /// `decodes`.
    pub context: u64,
    /// KV blocks in use at the end, over all ranks.
    pub kv_used: u64,
    /// Sequences in the batch at the end, over all ranks.
    pub running: u32,
    /// Requests that waited at the end.
    pub waiting: u32,
}

impl StepRun {
    pub fn duration(&self) -> u64 {
        span(self.first, self.increment, u64::from(self.steps))
    }

    /// When the last ended.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration())
    }
}

/// Picoseconds of `steps` steps that begin with `first` and grow by `increment`.
pub(super) fn span(first: u64, increment: u64, steps: u64) -> u64 {
    let growth = if steps.is_multiple_of(2) {
        (steps / 2).saturating_mul(steps.saturating_sub(1))
    } else {
        steps.saturating_mul(steps.saturating_sub(1) / 2)
    };
    steps
        .saturating_mul(first)
        .saturating_add(increment.saturating_mul(growth))
}
