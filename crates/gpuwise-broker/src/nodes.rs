//! What whoever runs the nodes says of them, as events of the fleet.

use crate::{Broker, NodeSeen};
use gpuwise_domain::placement::{Event, FleetGpu, Health, NodeId};
use gpuwise_sched::world::NodeState;
use gpuwise_wire::{Mirror as _, broker::BrokerEvent, live::EventDocument};

impl Broker {
    /// Nothing where it is known already, or no such node is of the fleet.
    pub(crate) fn node_seen(&self, name: &str, seen: NodeSeen, by: &str) -> Vec<BrokerEvent> {
        let mut nodes = (0..).map(NodeId).zip(self.world.nodes().iter());
        let node = nodes.find(|(_, state)| !state.left && state.node.name == name);
        let event = node.and_then(|(node, state)| self.change(node, state, seen, by));
        let event = event.map(|event| BrokerEvent::Fleet {
            event: EventDocument::of(&event),
        });
        event.into_iter().collect()
    }

    fn change(&self, node: NodeId, state: &NodeState, seen: NodeSeen, by: &str) -> Option<Event> {
        let fenced = state.fence().is_some_and(|fence| fence.fenced.is_some());
        let health = |health: Health| {
            let new = state.node.health != health || state.is_suspected();
            new.then_some(Event::NodeHealth { node, health })
        };
        match seen {
            // One that is fenced is back by its inventory alone: all that it had.
            NodeSeen::Up if fenced => {
                let gpus = state.node.gpus.iter();
                let gpus: Option<Vec<FleetGpu>> = gpus
                    .map(|gpu| Some(self.world.gpu(*gpu)?.gpu.clone()))
                    .collect();
                let mut node = state.node.clone();
                node.health = Health::Up;
                Some(Event::NodeJoined { node, gpus: gpus? })
            }
            NodeSeen::Up => health(Health::Up),
            NodeSeen::Draining if !fenced => health(Health::Draining),
            NodeSeen::Silent if state.fence().is_none() => Some(Event::NodeSuspected {
                node,
                by: by.to_owned(),
            }),
            NodeSeen::Down if !fenced => Some(Event::NodeFenced {
                node,
                by: by.to_owned(),
            }),
            NodeSeen::Draining | NodeSeen::Silent | NodeSeen::Down => None,
        }
    }
}
