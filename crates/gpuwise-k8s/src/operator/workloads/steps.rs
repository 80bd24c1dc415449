//! Phases of a change that are over, for who follows traces.

use super::one::One;
use crate::{
    operator::traces::{Outcome, Stepped},
    resources::{Decided, GpuWorkloadStatus, Phase},
};
use jiff::Timestamp;

/// The phase of a change that is under way, as one that is over now.
pub(super) fn phase_over(
    status: &GpuWorkloadStatus,
    now: Timestamp,
    outcome: Outcome,
) -> Option<Stepped> {
    let change = status.change.as_ref()?;
    let decided = status.decision.as_ref();
    Some(Stepped {
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
    })
}

impl One {
    /// The phase of a change that is under way is over: that is told to who follows traces.
    pub(super) fn phase_over(&mut self, now: Timestamp, outcome: Outcome) {
        self.steps.extend(phase_over(&self.status, now, outcome));
    }
}
