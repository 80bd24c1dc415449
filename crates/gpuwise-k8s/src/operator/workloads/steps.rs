//! Phases of a change that are over, for who follows traces.

use super::one::One;
use crate::{
    operator::traces::{Outcome, Stepped},
    resources::{Decided, Phase},
};
use jiff::Timestamp;

impl One {
    /// The phase of a change that is under way is over: that is told to who follows traces.
    pub(super) fn phase_over(&mut self, now: Timestamp, outcome: Outcome) {
        let Some(change) = &self.status.change else {
            return;
        };
        let decided = self.status.decision.as_ref();
        self.steps.push(Stepped {
            phase: match change.phase {
                Phase::RollingOut => "rolling out",
                Phase::Verifying => "verifying",
                Phase::RollingBack => "rolling back",
            },
            since: change.since.clone(),
            until: u64::try_from(now.as_nanosecond()).unwrap_or_default(),
            plan: change.plan.clone(),
            to: decided.map(Decided::words).unwrap_or_default(),
            outcome,
        });
    }
}
