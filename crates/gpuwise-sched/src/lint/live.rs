//! What failed is not tried again at once, and what may still run is not started elsewhere: by what the
//! world says of jobs and nodes, moment against moment.

use super::{Check, Rule};
use crate::world::StoredJob;
use gpuwise_domain::placement::{Assignment, JobId, NodeId};

impl Check<'_> {
    /// Says where a job may not start now.
    pub(super) fn may_start(&mut self, id: JobId, assignments: &[Assignment]) {
        let world = self.world;
        let Some(state) = world.job(id) else { return };
        let name = self.job_name(id);
        if state.hold {
            self.error(
                Rule::BackOff,
                format!("{name} is started, but it is held back"),
            );
        }
        if let Some(trouble) = state.trouble() {
            if trouble.until > self.now {
                let what = format!("{name} is started, but it failed a moment ago and waits");
                self.error(Rule::BackOff, what);
            }
            for (node, until) in &trouble.avoids {
                if *until > self.now && assignments.iter().any(|one| one.node == *node) {
                    let node = self.node_name(*node);
                    let what = format!("{name} is started on {node}, where it failed a moment ago");
                    self.error(Rule::BackOff, what);
                }
            }
        }
        for node in state.leaving_hosts() {
            let fence = world.node(*node).and_then(|node| node.fence());
            if fence.is_some_and(|fence| fence.fenced.is_none()) {
                let node = self.node_name(*node);
                let what = format!("{name} is started, but it may still run on {node}");
                self.error(Rule::Fence, what);
            }
        }
    }

    /// Says where a job that has a place may not be told to stop, to move or to be resized now.
    pub(super) fn may_be_told(&mut self, id: JobId) {
        let world = self.world;
        let Some(state) = world.job(id) else { return };
        let name = self.job_name(id);
        let waits = state
            .trouble()
            .is_some_and(|one| one.stays_until > self.now);
        if waits {
            let what = format!("{name} is told to leave, but would not a moment ago");
            self.error(Rule::BackOff, what);
        }
        for assignment in &state.assignments {
            let fence = world.node(assignment.node).and_then(|node| node.fence());
            if fence.is_some() {
                let node = self.node_name(assignment.node);
                let what = format!("{name} is told to leave, but {node} does not answer");
                self.error(Rule::Fence, what);
            }
        }
    }

    /// Says where a node takes nothing new though it is healthy.
    pub(super) fn is_open(&mut self, job: &StoredJob, id: NodeId) {
        let Some(state) = self.world.node(id) else {
            return;
        };
        let node = self.node_name(id);
        if state.fence().is_some() || state.left {
            let what = format!(
                "job {} is put on {node}, which does not answer or has left",
                job.name
            );
            self.error(Rule::Fence, what);
        }
        if state.closed_until.is_some_and(|until| until > self.now) {
            let what = format!(
                "job {} is put on {node}, where jobs failed a moment ago",
                job.name
            );
            self.error(Rule::BackOff, what);
        }
    }
}
