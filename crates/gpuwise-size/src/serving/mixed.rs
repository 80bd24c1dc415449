//! What prompts add to the steps that decode, where attention groups step together.
//!
//! Groups of a replica that share experts (attention DP with EP) wait for each other in every step. A
//! chunk of a prompt on one group therefore delays all of them, unless others compute chunks of their
//! own in the same step: a step is as long as that of the group with the most.

use super::{Cycle, normal_quantile};
use crate::speed::{Batch, Peers};

/// Seconds that one prompt adds to decode steps of its attention group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mixed {
    /// By one of its chunks in a step in which no other group has one.
    alone: f64,
    /// By a chunk of another group in the same step, at the experts that both share.
    shared: f64,
    /// By the operations of a chunk at peak, and what of a step that decodes they can hide in.
    least: f64,
    slack: f64,
    /// Chunks of the prompt.
    chunks: f64,
    groups: f64,
}

/// Mean counts from which they are taken to be normal.
const MANY: f64 = 100.0;

impl Mixed {
    /// Seconds for each prompt where all groups compute theirs in the same steps, so many prompts of
    /// a group in each.
    pub(crate) fn together(&self, prompts: f64) -> f64 {
        let fitted = self.alone + self.shared * (self.groups - 1.0);
        fitted.max(self.at_peak(prompts)) * self.chunks
    }

    /// Seconds below which a chunk cannot be added: all chunks of a step share the time that its
    /// decodes leave computing idle.
    fn at_peak(&self, prompts: f64) -> f64 {
        self.least - self.slack / (prompts * self.chunks).max(1.0)
    }

    /// Seconds for each prompt where a step meets so many prompts of a group, which come at random.
    ///
    /// Prompts of one group follow each other; of several groups the one with the most decides: the
    /// expected maximum of independent Poisson counts. Many prompts a step fall on all groups alike.
    pub(crate) fn each(&self, prompts: f64) -> f64 {
        if self.groups <= 1.0 {
            return self.together(prompts);
        }
        let mean = (prompts * self.chunks).max(1e-6);
        let most = most_of(mean, self.groups);
        let step = self.alone * most + self.shared * (mean * self.groups - most);
        (step / mean).max(self.at_peak(prompts)) * self.chunks
    }

    /// Seconds that a prompt keeps others of its own group waiting, where a step meets so many.
    pub(crate) fn own(&self, prompts: f64) -> f64 {
        self.alone.max(self.at_peak(prompts)) * self.chunks
    }

    /// Share of steps that a prompt lengthens, and by how much, where a step meets so many prompts of
    /// a group.
    pub(crate) fn hits(&self, prompts: f64) -> (f64, f64) {
        if self.groups <= 1.0 {
            return (prompts.min(1.0), self.alone * self.chunks);
        }
        let any = (prompts * self.chunks * self.groups).min(1.0);
        (any, self.alone)
    }
}

/// The expected largest of `groups` independent Poisson counts of one mean. Large counts are as good
/// as normal, whose largest is near the quantile that Blom (1958) gives.
fn most_of(mean: f64, groups: f64) -> f64 {
    if mean > MANY {
        let quantile = normal_quantile((groups - 0.375) / (groups + 0.25));
        return mean + libm::sqrt(mean) * quantile.max(0.0);
    }
    // E[max] is the sum over k ≥ 0 of P(max > k) = 1 − P(count ≤ k)^groups.
    let mut probability = libm::exp(-mean);
    let (mut below, mut sum) = (probability, 0.0);
    let mut k = 0.0;
    loop {
        let more = 1.0 - libm::pow(below.min(1.0), groups);
        sum += more;
        if k > mean && more < 1e-9 {
            return sum.max(mean);
        }
        k += 1.0;
        probability *= mean / k;
        below += probability;
    }
}

impl Cycle {
    /// Seconds of a decode step of `sequences` at `context` for each token that it yields, and what
    /// one prompt adds to such steps.
    pub(crate) fn decode_and_mixed(
        &self,
        sequences: f64,
        context: f64,
        tokens: f64,
        cached: f64,
    ) -> (f64, Mixed) {
        let groups = f64::from(self.steps.attention_groups());
        let steps = libm::ceil(tokens / self.chunk).max(1.0);
        let chunk = tokens / steps;
        let decoding = Batch {
            decodes: sequences,
            context,
            ..Batch::default()
        };
        let decode = self.step(&decoding);
        let prompt = Batch {
            prefill: chunk,
            prefill_context: cached + tokens / 2.0,
            finished: 1.0 / steps,
            ..Batch::default()
        };
        let least = self.steps.computing_at_peak(&prompt);
        // A chunk on this group alone, and on all groups in one step.
        let ((alone, all), slack) = if self.prefill_first {
            let one = |peers| {
                let chunk = Batch { peers, ..prompt };
                self.prefill_in(&chunk, steps) / steps * self.mixed
            };
            ((one(Peers::Tokens(chunk)), one(Peers::Alike)), 0.0)
        } else {
            let one = |peers| {
                let both = Batch {
                    decodes: sequences,
                    context,
                    peers,
                    ..prompt
                };
                let more = (self.step(&both) - decode).max(0.0);
                more * self.steps.prefill_factor() * self.mixed
            };
            let own = Peers::Tokens(sequences * groups + chunk);
            let slack = decode - self.steps.computing_at_peak(&decoding);
            ((one(own), one(Peers::Alike)), slack)
        };
        // One group alone is all of them.
        let alone = if groups > 1.0 { alone.min(all) } else { all };
        let mixed = Mixed {
            alone,
            shared: (all - alone) / (groups - 1.0).max(1.0),
            least,
            slack,
            chunks: steps,
            groups,
        };
        (self.per_token(decode), mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By all outcomes of two counts, term by term.
    fn most_of_two(mean: f64) -> f64 {
        let chances: alloc::vec::Vec<f64> = (0..60)
            .scan(libm::exp(-mean), |chance, k| {
                let now = *chance;
                *chance *= mean / f64::from(k + 1);
                Some(now)
            })
            .collect();
        let mut sum = 0.0;
        for (a, first) in chances.iter().enumerate() {
            for (b, second) in chances.iter().enumerate() {
                sum += first * second * a.max(b) as f64;
            }
        }
        sum
    }

    #[test]
    fn the_largest_of_two_counts_is_that_of_all_pairs() {
        for mean in [1e-3, 0.1, 1.0, 7.5] {
            let found = most_of(mean, 2.0);
            assert!((found - most_of_two(mean)).abs() < 1e-6, "{mean}: {found}");
        }
    }

    #[test]
    fn counts_pass_over_to_normal_ones_without_a_step() {
        for groups in [2.0, 8.0, 24.0, 64.0] {
            let (below, above) = (most_of(MANY, groups), most_of(MANY + 1e-6, groups));
            assert!(
                (above / below - 1.0).abs() < 0.01,
                "{groups}: {below}, {above}"
            );
        }
    }

    #[test]
    fn rare_prompts_delay_every_group_and_many_fall_on_all_alike() {
        assert!((most_of(1e-6, 8.0) / 8e-6 - 1.0).abs() < 1e-3);
        assert!((most_of(3.0, 1.0) - 3.0).abs() < 1e-6);
        let many = most_of(2000.0, 8.0) / 2000.0;
        assert!((1.0..1.05).contains(&many), "{many}");
        let mixed = Mixed {
            alone: 5e-3,
            shared: 1e-3,
            least: 0.0,
            slack: 0.0,
            chunks: 1.0,
            groups: 8.0,
        };
        // Alone in its step a prompt holds up eight groups; in step with the others it does not.
        assert!((mixed.each(1e-6) / 40e-3 - 1.0).abs() < 1e-3);
        assert!(mixed.each(2000.0) < 1.1 * 12e-3);
    }
}
