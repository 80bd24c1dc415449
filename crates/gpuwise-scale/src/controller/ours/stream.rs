//! What comes, as one number of requests a second or as two: prompts and answers, each in the requests that its tokens
//! are worth.

use super::Gpuwise;
use crate::controller::{
    Observed, Rules,
    demand::Arrivals,
    spares::{Cover, Covered},
};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// What came since it was last asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Came {
    /// Requests, or what tokens of prompts are worth.
    pub(super) first: f64,
    /// What tokens of answers are worth, where tokens are counted.
    pub(super) answers: Option<f64>,
}

impl Came {
    /// `None`: metrics say nothing.
    pub(super) fn of(seen: &Observed, rules: &Rules) -> Option<Self> {
        let known = |value: f64| (value.is_finite() && value >= 0.0).then_some(value);
        let Some((tokens, request)) = seen.tokens.zip(rules.tokens) else {
            return Some(Self {
                first: known(seen.arrived?)?,
                answers: None,
            });
        };
        Some(Self {
            first: known(tokens.prompts / request.prompt)?,
            answers: Some(known(tokens.answers / request.answer)?),
        })
    }
}

/// Arrivals of one kind, and what is to be covered of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stream {
    arrivals: Arrivals,
    cover: Cover,
}

impl Stream {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            arrivals: Arrivals::new(rules.period),
            cover: Cover::new(rules),
        }
    }

    /// What came, of which so large a part is of one period.
    pub(super) fn take(&mut self, seen: &Observed, rules: &Rules, came: Option<f64>, part: f64) {
        let Some(came) = came else {
            self.skip(seen.now);
            return;
        };
        self.arrivals.take(came * part);
        self.cover
            .take(seen.now, Some(came), self.arrivals.minute());
        self.cover
            .correct(rules, seen.requests, seen.late, seen.warm > 0);
    }

    pub(super) fn skip(&mut self, now: Nanoseconds) {
        self.cover.take(now, None, 0.0);
    }

    /// The same in place of one that is new.
    pub(super) fn under(self, new: Self, period: bool, promised: bool) -> Self {
        Self {
            arrivals: if period { self.arrivals } else { new.arrivals },
            cover: self.cover.under(new.cover, promised),
        }
    }
}

impl Gpuwise {
    /// Arrivals of the kind that needs more now.
    pub(super) fn busier(&self) -> &Arrivals {
        let first = &self.stream.arrivals;
        let answers = self.answers.as_deref().map(|one| &one.arrivals);
        answers
            .filter(|answers| answers.now() > first.now())
            .unwrap_or(first)
    }

    /// Requests a second that arrive now.
    pub(super) fn demand(&self) -> f64 {
        self.busier().now()
    }

    /// Requests a second that are to be covered.
    pub(super) fn covered(&self, demand: f64) -> Covered {
        let spares = self.rules.warm_cost.is_some();
        let first = self.stream.cover.demand(self.start, demand, spares);
        let answers = self.answers.as_deref();
        answers.map_or(first, |one| {
            let other = one.cover.demand(self.start, demand, spares);
            Covered {
                all: first.all.max(other.all),
                some: first.some.max(other.some),
            }
        })
    }
}
