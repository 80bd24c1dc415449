//! Trying actions on a world and taking them back.

use crate::{
    queues::Shares,
    world::{GpuState, JobState, NodeState, World},
};
use gpuwise_domain::placement::{Action, Event, GpuId, JobId, NodeId, Seat, Stamped};
use gpuwise_units::Nanoseconds;

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
        let event = Stamped {
            at: self.at,
            event: Event::Begun(action.clone()),
        };
        let now = self.world.now;
        let begun = self.world.apply(&event).is_ok();
        self.world.now = now;
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
                Some(Before::Node(id, state)) => {
                    if let Some(node) = self.world.nodes.get_mut(id.index()) {
                        *node = *state;
                    }
                }
                Some(Before::Job(id, state)) => {
                    self.world.jobs.insert(id, *state);
                }
                Some(Before::Shares(shares)) => self.world.shares = *shares,
                None => return,
            }
        }
    }

    fn note(&mut self, action: &Action) {
        match action {
            Action::Place { job, seats }
            | Action::Restore { job, seats }
            | Action::Move { job, seats, .. }
            | Action::Resize { job, seats } => {
                self.note_job(*job);
                self.note_seats(seats);
            }
            Action::Preempt { job, .. } | Action::Reclaim { job } => self.note_job(*job),
            Action::Attach { gpu, node } => {
                self.note_node(*node);
                self.note_gpu(*gpu);
            }
            Action::SetMig { gpu, .. }
            | Action::Cut { gpu, .. }
            | Action::Merge { gpu, .. }
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
        self.note_seats(&state.seats);
        self.before.push(Before::Job(id, state));
    }

    fn note_seats(&mut self, seats: &[Seat]) {
        for seat in seats {
            self.note_node(seat.node);
            for share in &seat.gpus {
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
