//! What is assumed of lengths where only their means are said.

use super::StatedWorkload;
use gpuwise_domain::note::TrafficNote;
use gpuwise_read::workload::{
    LONGEST_OF, USUAL_INPUT, USUAL_OUTPUT, WorkloadFields, is_mean_alone,
};
use gpuwise_units::Tokens;

/// What is assumed of how far lengths lie apart, where only their means are said.
pub(super) fn spread(fields: &WorkloadFields) -> Option<TrafficNote> {
    let alone = |mean: &Option<String>, variation: &Option<String>, longest: &Option<String>| {
        variation.is_none() && mean.as_deref().is_some_and(is_mean_alone) && longest != mean
    };
    let input = alone(&fields.isl, &fields.isl_variation, &fields.isl_longest);
    let output = alone(&fields.osl, &fields.osl_variation, &fields.osl_longest);
    (input || output).then_some(TrafficNote::Spread {
        input: input.then_some(USUAL_INPUT),
        output: output.then_some(USUAL_OUTPUT),
        longest: LONGEST_OF,
    })
}

impl StatedWorkload {
    /// Cuts tails that no text stated at what the model takes.
    pub fn within(&mut self, most: Option<Tokens>) {
        let Some(most) = most.filter(|_| self.derived) else {
            return;
        };
        let lengths = &mut self.workload.lengths;
        let (mean_in, mean_out) = (lengths.input.mean, lengths.output.mean);
        let over = lengths.input.longest.0 + lengths.output.longest.0;
        if over <= most.0 || mean_in + mean_out >= most.0 as f64 {
            return;
        }
        // What is left beside the means goes to both alike.
        let spare = (most.0 as f64 - mean_in - mean_out) / (mean_in + mean_out);
        for law in [&mut lengths.input, &mut lengths.output] {
            let most = (law.mean * (1.0 + spare)).floor() as u64;
            law.longest = Tokens(law.longest.0.min(most));
            if law.longest.0 as f64 <= law.mean {
                law.variation = 0.0;
            }
        }
        self.notes.push(TrafficNote::Cut {
            most,
            input: lengths.input.longest,
            output: lengths.output.longest,
        });
    }
}
