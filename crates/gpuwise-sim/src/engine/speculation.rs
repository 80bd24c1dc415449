//! Speculative decoding: each step verifies drafted tokens, of which those before the first wrong one
//! are kept.

use super::{
    rank::{Plan, Rank},
    sequence::{NONE, State},
    sink::Sink,
};
use gpuwise_units::RandomStream;

/// Drafts of one sequence in a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drafted {
    slot: u32,
    generation: u32,
    /// The place in the running list that it had.
    order: u64,
    /// Tokens computed: the next one and the drafts.
    tokens: u32,
}

impl Rank {
    /// Tokens that a sequence computes in the next step: its next one and the drafts.
    pub(super) fn draft_tokens(&self, slot: u32) -> u32 {
        let sequence = self.table.get(slot);
        // The step that runs yields at least one.
        let ends = sequence.drafted > 0 && sequence.generated + 1 >= sequence.wanted;
        if ends && !self.late_ends() {
            return 0;
        }
        1 + self.settings.speculation.map_or(0, |own| own.drafts)
    }

    /// Blocks for so many more tokens of a sequence, all drafts in flight being right.
    pub(super) fn grow_drafts(&mut self, slot: u32, tokens: u32) -> bool {
        let most = self.most_tokens(&self.table.get(slot).request);
        let sequence = self.table.get_mut(slot);
        let all = u64::from(sequence.computed) + u64::from(sequence.drafted + tokens);
        let all = all.min(most);
        let Some(holding) = &mut sequence.holding else {
            return false;
        };
        let taken = self.pool.take(self.pool.needed(holding, all));
        if taken {
            self.pool.grown(holding, all);
        }
        taken
    }

    /// Sequences that got tokens in this plan compute them; others stay behind.
    pub(super) fn run_drafts<S: Sink>(&mut self, plan: &mut Plan<'_, S>) {
        let mut at = self.table.first();
        while at != NONE {
            if self.table.get(at).state == State::Draft {
                self.run_draft(plan, at);
            }
            at = self.table.get(at).after;
        }
    }

    fn run_draft<S>(&mut self, plan: &mut Plan<'_, S>, slot: u32) {
        let ends = self.draft_tokens(slot) == 0;
        let turn = self.turn;
        let sequence = self.table.get_mut(slot);
        if sequence.turn != turn {
            if !sequence.behind && !ends {
                sequence.behind = true;
                self.behind += 1;
                plan.step.dropped.push((slot, sequence.generation));
            }
            return;
        }
        if sequence.behind {
            sequence.behind = false;
            self.behind -= 1;
            plan.step.late.push((slot, sequence.generation));
        }
        let (tokens, before) = (sequence.planned, sequence.computed + sequence.drafted);
        plan.step.work.decodes += tokens;
        plan.step.work.context += u64::from(before) + u64::from(tokens);
        sequence.drafted += tokens;
        plan.step.drafts.push(Drafted {
            slot,
            generation: sequence.generation,
            order: sequence.order,
            tokens,
        });
    }

    /// The step that ran is over: which of its drafts were right.
    pub(super) fn verify(&mut self) {
        let Some(speculation) = self.settings.speculation else {
            return;
        };
        let drafts = core::mem::take(&mut self.current.drafts);
        for drafted in &drafts {
            let there = self.table.place(drafted.slot, drafted.generation);
            let Some(slot) = there.filter(|at| !self.table.get(*at).aborted) else {
                self.current.wasted += 1;
                continue;
            };
            let sequence = self.table.get_mut(slot);
            let draws = sequence.draws.get_or_insert_with(|| {
                Box::new(RandomStream::new(
                    speculation.seed,
                    "drafts",
                    sequence.number,
                ))
            });
            let mut yielded = 1;
            while yielded < drafted.tokens && draws.uniform() < speculation.acceptance {
                yielded += 1;
            }
            let yielded = yielded.min(sequence.wanted - sequence.generated);
            sequence.generated += yielded;
            if sequence.state == State::Draft && sequence.order == drafted.order {
                sequence.computed += yielded;
                sequence.drafted -= drafted.tokens;
            } else {
                sequence.goal += yielded;
                self.owed += u64::from(yielded);
                self.waiting.grew(yielded);
            }
            self.current.tokens += yielded;
            if sequence.generated >= sequence.wanted {
                self.current.ending.push((slot, drafted.generation));
            }
        }
        self.current.verified = drafts.len() as u32;
        self.current.drafts = drafts;
    }
}
