//! One planned step of a rank.

use super::speculation::Drafted;
use crate::cost::StepWork;

/// A place and its generation: a sequence that may be gone when it is looked at.
pub(super) type Entry = (u32, u32);

/// What a planned step holds.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) work: StepWork,
    /// Output tokens, those left out that come after an end nobody knew.
    pub(super) tokens: u32,
    /// Decodes that come after an end nobody knew.
    pub(super) wasted: u32,
    /// Prompts computed up to so many tokens, which can be found when the step is over.
    pub(super) read: Vec<(u32, u32, u64)>,
    /// Sequences that yield their first token since they had to compute anew.
    pub(super) firsts: Vec<Entry>,
    /// Sequences that yield their last token.
    pub(super) ending: Vec<Entry>,
    /// Sequences that yielded one before and have none in this step.
    pub(super) dropped: Vec<Entry>,
    /// Decodes that were dropped from the steps before.
    pub(super) late: Vec<Entry>,
    /// Groups that waited for steps of prompts alone: (since, how many).
    pub(super) stalled: Vec<(u64, u32)>,
    /// Sequences whose drafts are verified.
    pub(super) drafts: Vec<Drafted>,
    /// How many of these there were, once they are.
    pub(super) verified: u32,
    /// Whether the next step is the same with a token more for each, if nothing comes.
    pub(super) steady: bool,
}

impl Step {
    /// Whether there is nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.work.decodes == 0 && self.work.prefill == 0
    }

    pub(super) fn sequences(&self) -> u32 {
        if self.verified > 0 {
            self.verified
        } else {
            self.work.decodes
        }
    }

    /// Decodes whose token before is not at the beginning of the step.
    pub(super) fn irregular(&self) -> u32 {
        self.wasted + self.late.len() as u32 + self.stalled.iter().map(|group| group.1).sum::<u32>()
    }

    pub(super) fn clear(&mut self) {
        self.work = StepWork::default();
        self.tokens = 0;
        self.wasted = 0;
        self.read.clear();
        self.firsts.clear();
        self.ending.clear();
        self.dropped.clear();
        self.late.clear();
        self.stalled.clear();
        self.drafts.clear();
        self.verified = 0;
        self.steady = false;
    }
}
