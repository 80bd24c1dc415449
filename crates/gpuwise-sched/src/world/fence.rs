//! Nodes that do not answer: suspected, then fenced, and back by their inventory.
//!
//! What runs on a node that does not answer may still run. It keeps its place, and nothing of it starts
//! elsewhere, until somebody has made sure that it does not; who, is kept.

use super::{Refused, World};
use gpuwise_domain::placement::{GpuId, Health, Home, NodeId};
use gpuwise_units::Nanoseconds;

/// What is known of a node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fence {
    pub suspected: Nanoseconds,
    /// Who said that it does not answer.
    pub suspected_by: String,
    /// When somebody made sure that nothing runs there, and who. `None`: nobody has.
    pub fenced: Option<(Nanoseconds, String)>,
}

impl super::NodeState {
    /// What is known of it since it did not answer; `None`: it answers.
    pub fn fence(&self) -> Option<&Fence> {
        self.fence.as_deref()
    }

    /// Whether it does not answer and what runs there may still run.
    pub fn is_suspected(&self) -> bool {
        self.fence().is_some_and(|fence| fence.fenced.is_none())
    }
}

impl World {
    pub(super) fn node_suspected(
        &mut self,
        at: Nanoseconds,
        id: NodeId,
        by: &str,
    ) -> Result<(), Refused> {
        let state = self
            .nodes
            .get_mut(id.index())
            .ok_or(Refused::NoSuchNode(id))?;
        if state.left {
            self.ignored.unknown += 1;
        } else if state.fence.is_some() {
            self.ignored.repeated += 1;
        } else {
            state.fence = Some(Box::new(Fence {
                suspected: at,
                suspected_by: by.into(),
                fenced: None,
            }));
            self.recount(id);
        }
        Ok(())
    }

    pub(super) fn node_fenced(
        &mut self,
        at: Nanoseconds,
        id: NodeId,
        by: &str,
    ) -> Result<(), Refused> {
        let state = self
            .nodes
            .get_mut(id.index())
            .ok_or(Refused::NoSuchNode(id))?;
        if state.left {
            self.ignored.unknown += 1;
            return Ok(());
        }
        let fence = state.fence.get_or_insert_with(|| {
            Box::new(Fence {
                suspected: at,
                suspected_by: by.into(),
                fenced: None,
            })
        });
        if fence.fenced.is_some() {
            self.ignored.repeated += 1;
            return Ok(());
        }
        fence.fenced = Some((at, by.into()));
        self.goes_down(at, id, Health::Lost { xid: 0 });
        Ok(())
    }

    pub(super) fn node_health(
        &mut self,
        at: Nanoseconds,
        id: NodeId,
        health: Health,
    ) -> Result<(), Refused> {
        let state = self.node(id).ok_or(Refused::NoSuchNode(id))?;
        if state.left {
            self.ignored.unknown += 1;
            return Ok(());
        }
        let suspected = state.is_suspected();
        if state.fence.is_some() && !suspected {
            self.ignored.fenced += 1;
        } else if suspected && !health.keeps_work() {
            // That it does not answer is known; that nothing runs there is for a fence to say.
            self.ignored.repeated += 1;
        } else if matches!(health, Health::Lost { .. }) && self.has_work(id) {
            return self.node_suspected(at, id, "health");
        } else if health.keeps_work() {
            if let Some(state) = self.nodes.get_mut(id.index()) {
                state.node.health = health;
                state.fence = None;
            }
            self.recount(id);
        } else {
            self.goes_down(at, id, health);
        }
        Ok(())
    }

    /// Whether somebody has something on a node, or is still leaving it.
    pub fn has_work(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| {
            let gpus = node.gpus.iter().filter_map(|gpu| self.gpu(*gpu));
            let mut leaving = gpus.filter(|gpu| !gpu.leaving.is_empty());
            node.workers > 0
                || node.leaving_cpu > 0
                || node.leaving_memory > 0
                || leaving.next().is_some()
        })
    }

    /// Nothing runs on a node any more, and nothing starts there.
    pub(super) fn goes_down(&mut self, at: Nanoseconds, id: NodeId, health: Health) {
        let jobs = self.jobs_on(id);
        let Some(state) = self.nodes.get_mut(id.index()) else {
            return;
        };
        state.node.health = health;
        let gpus: Vec<GpuId> = state.gpus.clone();
        self.lose_dead(at, jobs);
        for gpu in gpus {
            self.empty(gpu);
            let pooled = |state: &super::GpuState| matches!(state.gpu.home, Home::Pool(_));
            if self.gpu(gpu).is_some_and(pooled) {
                self.return_to_pool(gpu);
            }
        }
        self.recount(id);
    }
}
