//! What a step costs in time, as the engine asks for it.

mod graphs;
mod picoseconds;
mod sized;

pub use graphs::Graphs;
pub use picoseconds::Picoseconds;
pub use sized::Sized;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepWork {
    /// Tokens decoded: one of each sequence, and the drafts that it verifies.
    pub decodes: u32,
    /// Tokens of context that their sequences attend to, in all: read once for the drafts of one.
    pub context: u64,
    pub prefill: u32,
    /// Context that those attend to, summed over them: a chunk of `n` tokens after `c` cached ones
    /// adds `n·c + n·(n+1)/2`.
    pub prefill_context: u64,
    /// Prompts that end in this step.
    pub finished: u32,
}

impl StepWork {
    /// Tokens that the rank computes; one that has nothing to do computes a token for nothing.
    pub fn tokens(&self) -> u64 {
        (u64::from(self.decodes) + u64::from(self.prefill)).max(1)
    }
}

/// A decode step's time as a function of the total context: `base + slope · context` picoseconds, as
/// long as the context stays below `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostSegment {
    /// Picoseconds at no context; negative where the piece is part of a curve.
    pub base: i64,
    /// Picoseconds per token of context.
    pub slope: u64,
    /// The total context at which another piece begins.
    pub until: u64,
}

impl CostSegment {
    /// The time of a step at a total context.
    pub fn at(&self, context: u64) -> Picoseconds {
        let time = i128::from(self.base) + i128::from(self.slope) * i128::from(context);
        Picoseconds::at_least_one(u64::try_from(time.max(1)).unwrap_or(u64::MAX))
    }
}

/// Step times of one deployment. Implementations may remember what they computed; equal work costs
/// equal time however often and in whatever order it is asked.
///
/// `replica` is the number of tokens that all ranks of the replica compute in the step, this rank's
/// among them: ranks that keep attention apart share their experts.
pub trait StepCost {
    /// The time of steps that decode so many `tokens` around a total `context`.
    fn decode(&mut self, tokens: u32, context: u64, replica: u64) -> CostSegment;

    /// The time of a step that computes prompts, beside decodes or alone.
    fn mixed(&mut self, work: &StepWork, replica: u64) -> Picoseconds;

    /// Nanoseconds from the client to the engine's queue and from the engine to the client that are
    /// not spent in steps: tokenizing, transport, detokenizing.
    fn around(&self, input: u32) -> RequestOverhead;
}

/// What a request spends outside of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestOverhead {
    /// Nanoseconds before it is in the queue.
    pub before: u64,
    /// Nanoseconds from the end of a step until its token is at the client.
    pub after: u64,
}

/// Every step takes a constant, with a part for each token computed and each token of context: for
/// tests, and for oracles that have a closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Linear {
    pub step: u64,
    /// Picoseconds per sequence that decodes.
    pub sequence: u64,
    /// Picoseconds per prompt token.
    pub token: u64,
    /// Picoseconds per token of context.
    pub context: u64,
}

impl StepCost for Linear {
    fn decode(&mut self, sequences: u32, _context: u64, _replica: u64) -> CostSegment {
        let base = self.step + self.sequence * u64::from(sequences);
        CostSegment {
            base: i64::try_from(base).unwrap_or(i64::MAX),
            slope: self.context,
            until: u64::MAX,
        }
    }

    fn mixed(&mut self, work: &StepWork, _replica: u64) -> Picoseconds {
        Picoseconds::at_least_one(
            self.step
                + self.sequence * u64::from(work.decodes)
                + self.token * u64::from(work.prefill)
                + self.context * (work.context + work.prefill_context),
        )
    }

    fn around(&self, _input: u32) -> RequestOverhead {
        RequestOverhead::default()
    }
}
