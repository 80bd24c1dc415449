//! What silicon takes of one request at least: no figure and no end of a range goes beyond.

use super::{Cycle, Lengths};
use crate::speed::Batch;

/// Seconds below which a request cannot be served on one group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// To its first token.
    pub ttft: f64,
    /// For each token after it.
    pub tpot: f64,
    /// Of compute units, for all of its operations.
    pub work: f64,
}

impl Cycle {
    /// What a request of these lengths takes at least.
    pub fn least(&self, lengths: &Lengths) -> Least {
        let prompt = Batch {
            prefill: lengths.input,
            prefill_context: lengths.cached + lengths.input / 2.0,
            finished: 1.0,
            ..Batch::default()
        };
        let answer = Batch {
            decodes: 1.0,
            context: lengths.context(),
            ..Batch::default()
        };
        // Stages of a pipeline compute prompts of several requests at once.
        let shared = Batch {
            finished: self.steps.parts(),
            ..prompt
        };
        let (tokens_per_step, drafted) = self.yields();
        let tokens = lengths.after_first() * (1.0 + drafted) / tokens_per_step;
        Least {
            ttft: self.steps.computing_at_peak(&prompt),
            tpot: self.steps.roofline(&answer) / tokens_per_step,
            work: self.steps.computing_at_peak(&shared)
                + tokens * self.steps.computing_at_peak(&answer),
        }
    }
}
