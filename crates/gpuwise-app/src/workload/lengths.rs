//! What is assumed of lengths where only their means are said.

use super::{Note, StatedWorkload};
use gpuwise_read::workload::{
    LONGEST_OF, USUAL_INPUT, USUAL_OUTPUT, WorkloadFields, is_mean_alone,
};
use gpuwise_units::Tokens;

/// What is assumed of how far lengths lie apart, where only their means are said.
pub(super) fn spread(fields: &WorkloadFields) -> Option<String> {
    let alone = |mean: &Option<String>, variation: &Option<String>, longest: &Option<String>| {
        variation.is_none() && mean.as_deref().is_some_and(is_mean_alone) && longest != mean
    };
    let input = alone(&fields.isl, &fields.isl_variation, &fields.isl_longest);
    let output = alone(&fields.osl, &fields.osl_variation, &fields.osl_longest);
    let said: Vec<String> = [(input, "in", USUAL_INPUT), (output, "out", USUAL_OUTPUT)]
        .into_iter()
        .filter(|(assumed, ..)| *assumed)
        .map(|(_, way, variation)| format!("{variation} {way}"))
        .collect();
    (!said.is_empty()).then(|| {
        format!(
            "assumed of lengths, because only means were said: log-normal with a squared coefficient of \
             variation of {} (Azure's published conversations: 0.92 in, 0.60 out); --isl constant:2000, \
             mean:2000,p95:6000 or 500..4000 says otherwise. The length that {LONGEST_OF} % do not exceed is \
             taken for the longest, and the longest of both is the context that is served",
            said.join(" and ")
        )
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
        self.notes.push(Note::other(format!(
            "the model takes {most} tokens: prompts are at most {} long and answers {}",
            lengths.input.longest, lengths.output.longest
        )));
    }
}
