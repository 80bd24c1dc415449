//! What went wrong lately: who is not tried again yet, and where not.
//!
//! A wait doubles with each failure in a row, from [`FIRST`] up to [`MOST`], and is forgotten with the
//! first success. Nothing here is drawn by chance: the same failures give the same waits.

use super::World;
use gpuwise_domain::placement::{Assignment, Attempt, Failure, FailureCause, JobId, NodeId};
use gpuwise_units::Nanoseconds;
use std::{collections::BTreeSet, sync::Arc};

/// The first wait: 10 s.
pub const FIRST: Nanoseconds = Nanoseconds(10_000_000_000);
/// The longest wait: 30 minutes.
pub const MOST: Nanoseconds = Nanoseconds(1_800_000_000_000);
/// Different jobs in a row that failed to start on a node before it is closed for a while: one alone may
/// be at fault itself.
pub const NODE_FAILURES: u32 = 3;

/// What went wrong with a job since it last succeeded.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Trouble {
    /// Failures to start, one after the other.
    pub failures: u32,
    /// Until when it is not tried again.
    pub until: Nanoseconds,
    /// Where it is not tried again, and until when; by node.
    pub avoids: Vec<(NodeId, Nanoseconds)>,
    /// Failures to stop, to move or to be resized, one after the other.
    pub stays: u32,
    /// Until when it is not told to stop, to move or to be resized again.
    pub stays_until: Nanoseconds,
    /// The stop that failed last: should it be done after all, it counts.
    pub(super) stop_failed: Option<Attempt>,
    /// Why, the last time.
    pub cause: Option<FailureCause>,
    pub what: String,
}

/// How long is waited after so many failures in a row.
pub const fn wait(failures: u32) -> Nanoseconds {
    if failures == 0 {
        return Nanoseconds(0);
    }
    let doubled = if failures > 30 {
        u64::MAX
    } else {
        FIRST.0.saturating_mul(1 << (failures - 1))
    };
    Nanoseconds(if doubled < MOST.0 { doubled } else { MOST.0 })
}

impl super::JobState {
    /// What went wrong since it last succeeded.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.rare.trouble.as_deref()
    }

    /// Whether it may be tried now: it is not held back, and not waiting after a failure.
    pub fn may_start(&self, now: Nanoseconds) -> bool {
        !self.hold && self.trouble().is_none_or(|trouble| trouble.until <= now)
    }

    /// Whether it may be told to stop, to move or to be resized now.
    pub fn may_be_disrupted(&self, now: Nanoseconds) -> bool {
        self.trouble()
            .is_none_or(|trouble| trouble.stays_until <= now)
    }

    /// Nodes where it is not tried now, sorted.
    pub fn avoids(&self, now: Nanoseconds) -> impl Iterator<Item = (NodeId, Nanoseconds)> {
        let avoids = self.trouble().map_or(&[][..], |trouble| &trouble.avoids);
        avoids
            .iter()
            .copied()
            .filter(move |(_, until)| *until > now)
    }
}

impl World {
    /// Whether a job may be stopped, moved or resized now: it is somewhere, was not told already, did not
    /// fail to a moment ago, and all its nodes answer.
    pub fn may_disrupt(&self, state: &super::JobState, now: Nanoseconds) -> bool {
        let answers = |one: &Assignment| {
            let node = self.node(one.node);
            node.is_some_and(|node| !node.is_suspected())
        };
        state.phase.holds_gpus()
            && !state.stopping
            && state.may_be_disrupted(now)
            && state.assignments.iter().all(answers)
    }

    /// Nodes that are closed for a while after failures, and until when.
    pub fn closed(&self) -> &BTreeSet<(Nanoseconds, NodeId)> {
        &self.closed
    }

    /// Opens nodes whose wait is over.
    pub(crate) fn reopen(&mut self, at: Nanoseconds) {
        while let Some((until, node)) = self
            .closed
            .first()
            .copied()
            .filter(|(until, _)| *until <= at)
        {
            Arc::make_mut(&mut self.closed).remove(&(until, node));
            if let Some(state) = self.nodes.get_mut(node.index()) {
                state.closed_until = None;
            }
            self.recount(node);
        }
    }

    /// A start did not succeed on these assignments.
    pub(super) fn blame_start(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        assignments: &[Assignment],
        failure: &Failure,
    ) {
        let mut nodes: Vec<NodeId> = assignments.iter().map(|one| one.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if failure.cause == FailureCause::Program {
            nodes.clear();
        }
        self.has_trouble(job, failure, |trouble| {
            trouble.failures += 1;
            let wait = wait(trouble.failures);
            // With somewhere else to go it may go there at once: the place waits, and only from the
            // second failure on the job.
            let alone = nodes.is_empty() || trouble.failures > 1;
            trouble.until = if alone { at + wait } else { at };
            trouble
                .avoids
                .retain(|(node, until)| *until > at && !nodes.contains(node));
            trouble
                .avoids
                .extend(nodes.iter().map(|node| (*node, at + wait + wait)));
            trouble.avoids.sort_unstable();
        });
        for node in nodes {
            self.blame_node(at, node, job);
        }
    }

    fn blame_node(&mut self, at: Nanoseconds, id: NodeId, job: JobId) {
        let Some(state) = self.nodes.get_mut(id.index()) else {
            return;
        };
        if state.failed_last == Some(job) {
            return;
        }
        state.failed_last = Some(job);
        state.failures += 1;
        let Some(over) = (state.failures + 1)
            .checked_sub(NODE_FAILURES)
            .filter(|n| *n > 0)
        else {
            return;
        };
        let until = at + wait(over);
        let before = state.closed_until.replace(until);
        let closed = Arc::make_mut(&mut self.closed);
        if let Some(before) = before {
            closed.remove(&(before, id));
        }
        closed.insert((until, id));
        self.recount(id);
    }

    /// A stop, a move or a change of size did not succeed.
    pub(super) fn blame_stay(
        &mut self,
        at: Nanoseconds,
        job: JobId,
        stop: Option<Attempt>,
        failure: &Failure,
    ) {
        self.has_trouble(job, failure, |trouble| {
            trouble.stays += 1;
            trouble.stays_until = at + wait(trouble.stays);
            trouble.stop_failed = stop;
        });
    }

    fn has_trouble(&mut self, job: JobId, failure: &Failure, change: impl FnOnce(&mut Trouble)) {
        let Some(state) = self.jobs.get_mut(job) else {
            return;
        };
        state.rare.change(|rare| {
            let trouble = rare.trouble.get_or_insert_default();
            change(trouble);
            trouble.cause = Some(failure.cause);
            trouble.what.clone_from(&failure.what);
        });
    }

    /// A job has started, moved or changed its size: it and its nodes are no trouble any more.
    pub(super) fn succeeded(&mut self, job: JobId) {
        let Some(state) = self.jobs.get(job) else {
            return;
        };
        let mut nodes: Vec<NodeId> = state.assignments.iter().map(|one| one.node).collect();
        if state.rare.trouble.is_some()
            && let Some(state) = self.jobs.get_mut(job)
        {
            state.rare.change(|rare| rare.trouble = None);
        }
        nodes.retain(|id| {
            let node = self.nodes.get(id.index());
            node.is_some_and(|node| node.failures > 0 || node.closed_until.is_some())
        });
        for id in nodes {
            let Some(node) = self.nodes.get_mut(id.index()) else {
                continue;
            };
            (node.failures, node.failed_last) = (0, None);
            if let Some(until) = node.closed_until.take() {
                Arc::make_mut(&mut self.closed).remove(&(until, id));
                self.recount(id);
            }
        }
    }
}
