//! The answer of a search, whatever is planned.

use crate::{deployment::Dropped, note::Note};
use alloc::vec::Vec;

/// What a search found: of a question `Q` candidates `D`, and charts `C` where some are drawn.
///
/// That nothing meets the question is an answer: `ranked` is empty and `dropped` says what is short.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<Q, D, C = ()> {
    pub question: Q,
    /// Candidates that meet it, best first.
    pub ranked: Vec<D>,
    /// What people ask for and is not there, with the reason.
    pub dropped: Vec<Dropped>,
    /// Candidates that were looked at.
    pub considered: u64,
    /// What was assumed, and what else is to be known.
    pub notes: Vec<Note>,
    pub charts: C,
}

impl<Q, D, C> Answer<Q, D, C> {
    /// Whether a candidate meets the question.
    pub const fn feasible(&self) -> bool {
        !self.ranked.is_empty()
    }

    /// Candidates that do not meet it, the nearest first; those of which it is not known stand last.
    pub fn nearest(&self) -> Vec<&Dropped> {
        let ratio = |dropped: &Dropped| {
            if dropped.ratio > 0.0 {
                dropped.ratio
            } else {
                f64::INFINITY
            }
        };
        let mut list: Vec<&Dropped> = self.dropped.iter().collect();
        list.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        list
    }
}
