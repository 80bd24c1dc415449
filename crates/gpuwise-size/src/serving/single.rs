//! Single steps of the cycle, for those who follow an engine step by step instead of asking for its
//! steady state.

use super::Cycle;
use crate::speed::{Batch, Peers};

impl Cycle {
    /// Seconds of one step in which `sequences` decode over a mean `context`: drafts and what checks
    /// them included, whatever it yields.
    pub fn decode_step(&self, sequences: f64, context: f64, peers: Peers) -> f64 {
        let step = self.step(&Batch {
            decodes: sequences,
            context,
            peers,
            ..Batch::default()
        });
        step * (1.0 + self.drafted * self.layer_share)
    }

    /// The same where the step is computed for `padded` sequences, of which all but `sequences` attend
    /// to nothing and yield nothing. Rows that pad are all alike: they choose the same experts, and the
    /// host has no work with them.
    pub fn padded_step(&self, sequences: f64, padded: f64, context: f64, peers: Peers) -> f64 {
        let more = padded - sequences;
        if more <= 0.0 {
            return self.decode_step(sequences, context, peers);
        }
        let thinned = context * sequences / padded;
        let experts = |decodes: f64, context: f64| {
            let batch = Batch {
                decodes,
                context,
                peers,
                ..Batch::default()
            };
            self.steps.time(&batch).experts
        };
        let spared = more * self.steps.sequence_seconds() + experts(padded, thinned)
            - experts(sequences, context);
        let spared = spared * self.measured_steps(padded, thinned);
        let least = self.steps.roofline(&Batch {
            decodes: sequences,
            context,
            peers,
            ..Batch::default()
        });
        (self.decode_step(padded, thinned, peers) - spared).max(least)
    }

    /// Seconds of one step that computes prompts, beside decodes or alone.
    pub fn mixed_step(&self, batch: &Batch) -> f64 {
        if batch.decodes <= 0.0 {
            let (step, least) = self.bounded(batch);
            let step = (step + self.drafts(batch)) * self.steps.prefill_factor();
            return (step * self.measured_prompts(batch.prefill_context)).max(least);
        }
        let decoding = self.decode_step(batch.decodes, batch.context, batch.peers);
        self.mixed_beside(batch, decoding)
    }

    /// The same where the step of its decoding sequences alone is known.
    pub(crate) fn mixed_beside(&self, batch: &Batch, decoding: f64) -> f64 {
        let (step, checked) = self.modelled(batch);
        let least = if self.drafted > 0.0 {
            self.steps.roofline(batch)
        } else {
            checked
        };
        let measured = self.measured_steps(batch.decodes, batch.context);
        let alone = decoding / measured / (1.0 + self.drafted * self.layer_share);
        let more = (step - alone).max(0.0) * self.measured_prompts(batch.prefill_context);
        (decoding + more * self.steps.prefill_factor() * self.mixed).max(least)
    }

    /// Tokens that a step yields for each sequence where the engine drafts and nothing is known of
    /// single drafts: the mean; and tokens drafted a step where that is stated.
    pub fn yields(&self) -> (f64, f64) {
        (self.tokens_per_step, self.drafted)
    }
}
