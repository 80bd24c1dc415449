//! Trying actions on a world and taking them back.

use crate::{
    queues::Shares,
    world::{GpuState, JobState, NodeState, Upkeep, World},
};
use gpuwise_domain::placement::{
    Action, Assignment, Event, GpuId, JobId, NodeId, TimestampedEvent,
};
use gpuwise_units::Nanoseconds;
use std::sync::Arc;

/// A world on which actions begin to see what comes of it. What is taken back is as it was to the last
/// bit, counts of changes included.
pub(super) struct Scratch<'w> {
    world: &'w mut World,
    at: Nanoseconds,
    before: Vec<Before>,
}

enum Before {
    Gpu(GpuId, Box<GpuState>),
    Node(NodeId, Box<NodeState>),
    Job(JobId, Box<JobState>),
    Shares(Box<Shares>),
    Upkeep(Arc<Upkeep>),
    Attempts(u64),
}

impl<'w> Scratch<'w> {
    pub(super) fn new(world: &'w mut World, at: Nanoseconds) -> Self {
        Self {
            world,
            at,
            before: Vec::new(),
        }
    }

    pub(super) fn world(&self) -> &World {
        self.world
    }

    /// Up to where taking back goes.
    pub(super) fn mark(&self) -> usize {
        self.before.len()
    }

    /// Begins an action; `false`, and nothing has changed, when it cannot begin.
    pub(super) fn begin(&mut self, action: &Action) -> bool {
        let mark = self.mark();
        self.note(action);
        let event = TimestampedEvent {
            at: self.at,
            event: Event::begun(action.clone()),
        };
        let begun = self.world.change(&event).is_ok();
        if !begun {
            self.undo(mark);
        }
        begun
    }

    /// Takes back what was begun since a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.before.len() > mark {
            match self.before.pop() {
                Some(Before::Gpu(id, state)) => {
                    if let Some(gpu) = self.world.gpus.get_mut(id.index()) {
                        *gpu = *state;
                    }
                }
                Some(Before::Node(id, state)) => self.world.put_back(id, *state),
                Some(Before::Job(id, state)) => {
                    self.world.jobs.insert(id, *state);
                }
                Some(Before::Shares(shares)) => self.world.shares = *shares,
                Some(Before::Upkeep(upkeep)) => self.world.upkeep = upkeep,
                Some(Before::Attempts(attempts)) => self.world.attempts = attempts,
                None => return,
            }
        }
    }

    fn note(&mut self, action: &Action) {
        self.before.push(Before::Attempts(self.world.attempts));
        if let Action::Move { .. } = action {
            let upkeep = Arc::clone(&self.world.upkeep);
            self.before.push(Before::Upkeep(upkeep));
        }
        match action {
            Action::Place { job, assignments }
            | Action::Restore { job, assignments }
            | Action::Move {
                job, assignments, ..
            }
            | Action::Resize { job, assignments } => {
                self.note_job(*job);
                self.note_seats(assignments);
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => self.note_job(*job),
            Action::Attach { gpu, node } => {
                self.note_node(*node);
                self.note_gpu(*gpu);
            }
            Action::SetMig { gpu, .. }
            | Action::CreateInstance { gpu, .. }
            | Action::DestroyInstance { gpu, .. }
            | Action::Detach { gpu } => self.note_gpu(*gpu),
        }
    }

    fn note_job(&mut self, id: JobId) {
        let Some(state) = self.world.job(id) else {
            return;
        };
        let state = Box::new(state.clone());
        if state.job.queue.is_some() {
            let shares = Box::new(self.world.shares.clone());
            self.before.push(Before::Shares(shares));
        }
        self.note_seats(&state.assignments);
        self.before.push(Before::Job(id, state));
    }

    fn note_seats(&mut self, assignments: &[Assignment]) {
        for assignment in assignments {
            self.note_node(assignment.node);
            for share in &assignment.gpus {
                if let Some(state) = self.world.gpu(share.gpu) {
                    let state = Box::new(state.clone());
                    self.before.push(Before::Gpu(share.gpu, state));
                }
            }
        }
    }

    fn note_gpu(&mut self, id: GpuId) {
        let Some(state) = self.world.gpu(id).cloned() else {
            return;
        };
        if let Some(node) = state.node {
            self.note_node(node);
        }
        self.before.push(Before::Gpu(id, Box::new(state)));
    }

    fn note_node(&mut self, id: NodeId) {
        if let Some(state) = self.world.node(id) {
            self.before.push(Before::Node(id, Box::new(state.clone())));
        }
    }
}
