//! What prompts add to the steps that decode.
//!
//! Prompts that wait when a step begins are computed in it together, up to the tokens that a step
//! takes: a lump. Groups of a replica that share experts (attention DP with EP) wait for each other in
//! every step. A lump on one group therefore delays all of them, unless others compute lumps of their
//! own in the same step: a step is as long as that of the group with the most.

use super::{Cycle, Lengths, normal_quantile};
use crate::speed::{Batch, Peers};

/// Prompt tokens computed in one step, and the seconds that they add to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PrefillChunk {
    /// Added by a lump in a step in which no other group has one.
    alone: f64,
    /// Added by a lump of another group in the same step, at the experts that both share.
    shared: f64,
    groups: f64,
    /// Lumps that one prompt makes: below 1 where several prompts share one.
    pub(crate) for_each: f64,
    /// Seconds from the start of the lump's step to its end.
    pub(crate) step: f64,
}

/// Sequences that decode while prompts are computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodingBatch {
    decodes: f64,
    context: f64,
    /// Seconds of a step without prompts of them, of at least one.
    step: f64,
}

/// Mean counts from which they are taken to be normal.
const MANY: f64 = 100.0;

impl PrefillChunk {
    /// Seconds that prompts add to a mean step which meets so many of them in each group.
    ///
    /// Lumps of one group follow each other; of several groups the one with the most decides: the
    /// expected maximum of independent Poisson counts. Many lumps a step fall on all groups alike.
    pub(crate) fn adds(&self, prompts: f64) -> f64 {
        let lumps = prompts * self.for_each;
        if self.groups <= 1.0 || lumps <= 0.0 {
            return self.alone * lumps;
        }
        let most = most_of(lumps, self.groups);
        self.alone * most + self.shared * (lumps * self.groups - most)
    }

    /// Share of steps that a lump lengthens, and by how much, where a step meets so many prompts of
    /// a group.
    pub(crate) fn hits(&self, prompts: f64) -> (f64, f64) {
        let any = (prompts * self.for_each * self.groups).min(1.0);
        (any, self.alone)
    }

    /// The same where all groups compute theirs in the same steps.
    pub(crate) fn balanced(self) -> Self {
        Self {
            alone: self.alone + self.shared * (self.groups - 1.0),
            shared: 0.0,
            groups: 1.0,
            ..self
        }
    }

    /// Seconds from the first of a prompt's lumps to the end of its last.
    pub(crate) fn service(&self) -> f64 {
        self.step * self.for_each.max(1.0)
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

/// Tokens that log-normal prompts of this mean and squared variation have within the first so many:
/// the mean of the smaller of both.
fn within(mean: f64, variation: f64, most: f64) -> f64 {
    if variation <= 0.0 {
        return mean.min(most);
    }
    let variance = libm::log1p(variation);
    let sigma = libm::sqrt(variance);
    let below = |z: f64| 0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2);
    let at = libm::log(most / mean);
    mean * below((at - 0.5 * variance) / sigma)
        + most * (1.0 - below((at + 0.5 * variance) / sigma))
}

impl Cycle {
    /// Prompt tokens that one step takes at most: each part of a batch that passes through the stages
    /// of a pipeline takes as many.
    pub(crate) fn budget(&self) -> f64 {
        self.chunk * self.steps.parts()
    }

    /// A lump of prompts, so many where the budget allows, beside sequences that decode: a prompt
    /// beyond the budget is computed in equal chunks.
    pub(crate) fn lump(&self, lengths: &Lengths, prompts: f64, decodes: f64) -> PrefillChunk {
        let beside = self.beside(decodes, lengths.context());
        self.lump_of(lengths, prompts, &beside, 0.0)
    }

    /// So many sequences at a mean context.
    pub(super) fn beside(&self, decodes: f64, context: f64) -> DecodingBatch {
        let step = if self.prefill_first {
            0.0
        } else {
            self.decode_step(decodes.max(1.0), context, Peers::Alike)
        };
        DecodingBatch {
            decodes,
            context,
            step,
        }
    }

    /// The same of prompts whose lengths have this squared variation: a token stands in a prompt that
    /// is longer than the mean, and attends to more.
    pub(super) fn lump_of(
        &self,
        lengths: &Lengths,
        prompts: f64,
        beside: &DecodingBatch,
        variation: f64,
    ) -> PrefillChunk {
        let input = lengths.input.max(1.0);
        let budget = self.budget();
        let tokens = if input > budget {
            input / libm::ceil(input / budget)
        } else {
            (prompts.max(1.0) * input).min(budget)
        };
        let groups = f64::from(self.steps.attention_groups());
        // Chunks of long prompts follow each other a stage behind; short ones pass sooner.
        let parts = if self.steps.parts() > 1.0 && tokens >= input {
            input / within(input, variation, self.chunk)
        } else {
            1.0
        };
        let prompt = Batch {
            prefill: tokens,
            prefill_context: lengths.cached + input * (1.0 + variation) / 2.0,
            finished: tokens / input * parts,
            ..Batch::default()
        };
        let (alone, all, step) = self.adding(&prompt, beside);
        PrefillChunk {
            alone,
            shared: (all - alone) / (groups - 1.0).max(1.0),
            groups,
            for_each: input / tokens,
            step,
        }
    }

    /// Seconds that such prompts add to a step in which no other group has any, to one in which all
    /// have as many, and seconds of this.
    fn adding(&self, prompt: &Batch, beside: &DecodingBatch) -> (f64, f64, f64) {
        let groups = f64::from(self.steps.attention_groups());
        let tokens = prompt.prefill;
        let apart = |peers| self.mixed_step(&Batch { peers, ..*prompt });
        // While nobody decodes a lump has its step to itself.
        let decoding = beside.decodes.min(1.0);
        if self.prefill_first || decoding <= 0.0 {
            let all = apart(Peers::Alike);
            let alone = if groups > 1.0 {
                apart(Peers::Tokens(tokens)).min(all)
            } else {
                all
            };
            return (alone, all, all);
        }
        let (decodes, decode) = (beside.decodes.max(1.0), beside.step);
        let both = |peers| Batch {
            decodes,
            context: beside.context,
            peers,
            ..*prompt
        };
        let all = (self.mixed_beside(&both(Peers::Alike), decode) - decode).max(0.0);
        let alone = if groups > 1.0 {
            let peers = Peers::Tokens(decodes * groups + tokens);
            (self.mixed_step(&both(peers)) - decode).max(0.0).min(all)
        } else {
            all
        };
        if decoding < 1.0 {
            let empty = apart(Peers::Alike);
            let blend = |beside: f64| beside * decoding + empty * (1.0 - decoding);
            (blend(alone), blend(all), blend(decode + all))
        } else {
            (alone, all, decode + all)
        }
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
    fn tokens_within_a_chunk_are_those_of_single_prompts() {
        let (mean, variation, most) = (8000.0, 0.92, 8192.0);
        let sigma = libm::sqrt(libm::log1p(variation));
        let middles = (0..20_000).map(|at| (f64::from(at) + 0.5) / 20_000.0);
        let lengths = middles.map(|part| {
            let z = sigma * normal_quantile(part) - 0.5 * sigma * sigma;
            (mean * libm::exp(z)).min(most)
        });
        let found = lengths.sum::<f64>() / 20_000.0;
        assert!(
            (within(mean, variation, most) / found - 1.0).abs() < 2e-3,
            "{found}"
        );
        assert!((within(mean, 0.0, most) - mean).abs() < 1e-9);
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
        let lump = PrefillChunk {
            alone: 5e-3,
            shared: 1e-3,
            groups: 8.0,
            for_each: 1.0,
            step: 5e-3,
        };
        // Alone in its step a prompt holds up eight groups; in step with the others it does not.
        assert!((lump.adds(1e-6) / 1e-6 / 40e-3 - 1.0).abs() < 1e-3);
        assert!(lump.adds(2000.0) / 2000.0 < 1.1 * 12e-3);
    }
}
