//! Jobs that are expected to end after their deadlines.

use super::Decided;
use gpuwise_domain::placement::{JobId, Outcome};
use gpuwise_sched::{decide, report::span};
use gpuwise_units::Nanoseconds;
use serde_json::json;
use std::collections::BTreeMap;

/// A job that ends too late; times from now.
pub(super) struct Late {
    pub(super) job: String,
    runs: bool,
    end: Nanoseconds,
    deadline: Nanoseconds,
}

impl Late {
    pub(super) fn words(&self) -> String {
        let runs = if self.runs { "" } else { " at the earliest" };
        let (end, by) = (self.end.0, self.deadline.0);
        format!(
            "{} is expected to end in {}{runs}, {} after its deadline.",
            self.job,
            span(self.end),
            span(Nanoseconds(end.saturating_sub(by)))
        )
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "job": self.job,
            "expected_end_seconds": self.end.seconds().get(),
            "deadline_seconds": self.deadline.seconds().get(),
        })
    }
}

/// Everybody who ends too late, once the plan is carried out.
pub(super) fn late(decided: &Decided) -> Vec<Late> {
    let world = &decided.after;
    let told = decided.report.decisions.iter();
    let starts: BTreeMap<JobId, Nanoseconds> = told
        .filter_map(|told| match &told.outcome {
            Outcome::Waits { start, .. } => start.map(|start| (told.job, start)),
            Outcome::Placed => None,
        })
        .collect();
    let start = |id| starts.get(&id).copied();
    let jobs = world.jobs().filter_map(|(id, state)| {
        let end = decide::late(world, state, start(id))?;
        let from_now = |time: Nanoseconds| Nanoseconds(time.0.saturating_sub(world.now().0));
        Some(Late {
            job: state.job.name.to_string(),
            runs: !state.assignments.is_empty(),
            end: from_now(end),
            deadline: from_now(state.job.deadline?),
        })
    });
    jobs.collect()
}
