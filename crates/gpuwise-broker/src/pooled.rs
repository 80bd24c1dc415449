//! What whoever composes hosts says of pooled GPUs, as events of the fleet.
//!
//! What is on its way says by its order how it went, and is not judged by what is seen meanwhile. A GPU that somebody
//! else took, or that does not work, is not offered; one that is at a node of ours though nobody attached it is taken
//! to be there, and given back when its time comes; one that is no longer where it was is in its pool again, and who
//! was on it has lost it.

use crate::{Broker, GpuSeen};
use gpuwise_domain::placement::{
    Action, Attempt, Event, FleetGpu, GpuId, Health, NodeId, TimestampedEvent, Uid,
};
use gpuwise_sched::world::{GpuState, Link};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{Mirror as _, broker::BrokerEvent, live::EventDocument};

const LOST: Health = Health::Lost { xid: 0 };

impl Broker {
    /// Nothing where it is known already, or no such GPU is of the fleet.
    pub(crate) fn gpu_seen(&self, now: Nanoseconds, uid: &str, seen: &GpuSeen) -> Vec<BrokerEvent> {
        let id = self.world.gpu_named(&Uid::from(uid));
        let known = id.and_then(|id| Some((id, self.world.gpu(id)?)));
        let events = known.map(|(id, state)| self.moved(now, id, state, seen));
        let events = events.unwrap_or_default().into_iter();
        let fleet = |event| BrokerEvent::Fleet {
            event: EventDocument::of(&event),
        };
        events.map(fleet).collect()
    }

    fn moved(&self, now: Nanoseconds, id: GpuId, state: &GpuState, seen: &GpuSeen) -> Vec<Event> {
        let health = |health: Health| {
            let new = state.gpu.health != health;
            let event = Event::GpuHealth { gpu: id, health };
            new.then_some(event).into_iter().collect()
        };
        // Who drains a GPU has a reason that is not seen there.
        let well = || match state.gpu.health {
            Health::Maintenance | Health::Lost { .. } => health(Health::Up),
            Health::Up | Health::Draining => Vec::new(),
        };
        match (state.link, seen) {
            (Link::Attaching | Link::Detaching | Link::Gone, _) => Vec::new(),
            (_, GpuSeen::Failed) | (Link::InPool, GpuSeen::Missing) => health(LOST),
            (Link::InPool, GpuSeen::Free) => well(),
            (Link::InPool, GpuSeen::Taken) => health(Health::Maintenance),
            (Link::InPool, GpuSeen::At(node)) => {
                let adopted = self.adopted(now, id, state, node);
                adopted.unwrap_or_else(|| health(Health::Maintenance))
            }
            (Link::Here, GpuSeen::At(node)) if self.is_named(state.node, node) => well(),
            (Link::Here, GpuSeen::Free | GpuSeen::At(_)) => back(id, state, Health::Up),
            (Link::Here, GpuSeen::Taken) => back(id, state, Health::Maintenance),
            (Link::Here, GpuSeen::Missing) => back(id, state, LOST),
        }
    }

    fn is_named(&self, node: Option<NodeId>, name: &str) -> bool {
        let state = node.and_then(|node| self.world.node(node));
        state.is_some_and(|state| state.node.name == name)
    }

    /// It is at a node though nobody attached it: as if somebody had. `None`: that cannot be now.
    fn adopted(
        &self,
        now: Nanoseconds,
        gpu: GpuId,
        state: &GpuState,
        name: &str,
    ) -> Option<Vec<Event>> {
        let mut nodes = (0..).map(NodeId).zip(self.world.nodes().iter());
        let (node, _) = nodes.find(|(_, state)| !state.left && state.node.name == name)?;
        let mut events = Vec::new();
        if state.gpu.health != Health::Up {
            let health = Health::Up;
            events.push(Event::GpuHealth { gpu, health });
        }
        events.push(Event::Done {
            action: Action::Attach { gpu, node },
            attempt: Attempt::UNNUMBERED,
        });
        let mut after = self.world.clone();
        let happens = |event: &Event| {
            let event = event.clone();
            after.apply(&TimestampedEvent { at: now, event }).is_ok()
        };
        events.iter().all(happens).then_some(events)
    }
}

/// It is no longer where it was.
fn back(gpu: GpuId, state: &GpuState, health: Health) -> Vec<Event> {
    let joined = FleetGpu {
        health,
        ..state.gpu.clone()
    };
    vec![Event::GpuLeft { gpu }, Event::GpuJoined(joined)]
}
