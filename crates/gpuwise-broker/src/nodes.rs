//! Reports of executors about nodes, and orders of operators for them, as events of the fleet.

use crate::{Broken, Broker, Lease, LeaseState, NodeSeen, Refusal, ask::ended};
use gpuwise_domain::placement::{
    Action, Cause, Event, FleetGpu, Health, JobId, NodeId, Plan, Preemption, TimestampedEvent,
};
use gpuwise_sched::world::NodeState;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, NodeVerb},
    live::{EventDocument, NodeNumber, NumberedPlanDocument},
};

/// A node on which nothing new is placed, whatever else it is.
const fn closed(health: Health) -> Health {
    match health {
        Health::Up => Health::Draining,
        other => other,
    }
}

impl Broker {
    /// Nothing where it is known already, or no such node is of the fleet.
    pub(crate) fn node_seen(&self, name: &str, seen: NodeSeen, by: &str) -> Vec<BrokerEvent> {
        let node = self.node_called(name);
        let event = node.and_then(|(node, state)| self.change(node, state, seen, by));
        event.iter().map(fleet).collect()
    }

    fn node_called(&self, name: &str) -> Option<(NodeId, &NodeState)> {
        let mut nodes = (0..).map(NodeId).zip(self.world.nodes().iter());
        nodes.find(|(_, state)| !state.left && state.node.name == name)
    }

    fn change(&self, node: NodeId, state: &NodeState, seen: NodeSeen, by: &str) -> Option<Event> {
        let fenced = state.fence().is_some_and(|fence| fence.fenced.is_some());
        let health = |health: Health| {
            let new = self.health_below(node, state) != health || state.is_suspected();
            new.then_some(Event::NodeHealth { node, health })
        };
        match seen {
            NodeSeen::Up if fenced => self.back(state),
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

    /// One that was fenced is back by its inventory alone: all that it had.
    fn back(&self, state: &NodeState) -> Option<Event> {
        let gpus = state.node.gpus.iter();
        let gpus: Option<Vec<FleetGpu>> = gpus
            .map(|gpu| Some(self.world.gpu(*gpu)?.gpu.clone()))
            .collect();
        let mut node = state.node.clone();
        node.health = Health::Up;
        Some(Event::NodeJoined { node, gpus: gpus? })
    }

    /// What a node is but for its cordon.
    pub(crate) fn health_below(&self, node: NodeId, state: &NodeState) -> Health {
        let below = self.cordoned.get(&node).copied();
        below.unwrap_or(state.node.health)
    }

    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.cordoned.contains_key(&node)
    }

    /// What an operator wants of a node, who is named by `by`; with `end`, leases that a drain leaves there are told to
    /// end.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn node_told_to(
        &self,
        name: &str,
        (verb, end): (NodeVerb, bool),
        by: &str,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        let no = || Refusal::NoSuchNode(name.to_owned());
        let (id, state) = self.node_called(name).ok_or_else(no)?;
        let node = NodeNumber::of(&id);
        let is_fenced = state.fence().is_some_and(|fence| fence.fenced.is_some());
        let cordon = (!self.is_cordoned(id)).then_some(BrokerEvent::Cordoned {
            node,
            drains: false,
        });
        Ok(match verb {
            NodeVerb::Cordon => cordon.into_iter().collect(),
            NodeVerb::Uncordon => {
                let open = (self.is_cordoned(id)).then_some(BrokerEvent::Uncordoned { node });
                let back = is_fenced.then(|| self.back(state)).flatten();
                open.into_iter().chain(back.iter().map(fleet)).collect()
            }
            NodeVerb::Drain => {
                let drains = (!self.drained.contains(&id))
                    .then_some(BrokerEvent::Cordoned { node, drains: true });
                let mut events: Vec<BrokerEvent> = drains.into_iter().collect();
                if end {
                    events.extend(self.ended_by_drain(id, name));
                }
                events
            }
            NodeVerb::Fence if is_fenced => Vec::new(),
            NodeVerb::Fence => vec![fleet(&Event::NodeFenced {
                node: id,
                by: by.to_owned(),
            })],
        })
    }

    /// A node leaves the fleet.
    ///
    /// # Errors
    /// When there is no such node, or it holds something.
    pub fn remove_node(&self, name: &str) -> Result<Vec<BrokerEvent>, Refusal> {
        let no = || Refusal::NoSuchNode(name.to_owned());
        let (id, state) = self.node_called(name).ok_or_else(no)?;
        if let Some(why) = self.keeps_node(id, state) {
            let node = name.to_owned();
            return Err(Refusal::NodeInUse { node, why });
        }
        Ok(self.leaves(id))
    }

    /// A node leaves the fleet, and its cordon with it.
    pub(crate) fn leaves(&self, node: NodeId) -> Vec<BrokerEvent> {
        let open = BrokerEvent::Uncordoned {
            node: NodeNumber::of(&node),
        };
        let open = self.is_cordoned(node).then_some(open);
        let left = fleet(&Event::NodeLeft { node });
        [left].into_iter().chain(open).collect()
    }

    /// Leases that have a place on a node and are not told to end.
    fn placed_on(&self, node: NodeId) -> impl Iterator<Item = &Lease> {
        let placed = move |lease: &&Lease| {
            // One that is leaving it already goes on elsewhere.
            let state = self.world.job(lease.job());
            state.is_some_and(|state| state.assignments.iter().any(|one| one.node == node))
        };
        let jobs = self.world.jobs_on(node).into_iter();
        let leases = jobs.filter_map(|job| self.lease(job.0));
        leases
            .filter(|lease| lease.draining.is_none())
            .filter(placed)
    }

    /// Leases on a node that may not be preempted are told to end.
    fn ended_by_drain(&self, node: NodeId, name: &str) -> Vec<BrokerEvent> {
        let reason = format!("node {name} is drained");
        let stays = self
            .placed_on(node)
            .filter(|lease| !self.may_preempt(lease.job()));
        stays
            .map(|lease| match self.state(lease).0 {
                LeaseState::Suspended => ended(lease, &reason),
                _ => BrokerEvent::Draining {
                    lease: lease.number,
                    reason: reason.clone(),
                },
            })
            .collect()
    }

    /// Leases on nodes that are drained are preempted, as soon as they can be.
    pub(crate) fn drains(&self, at: Nanoseconds) -> Vec<BrokerEvent> {
        let nodes = self.drained.iter();
        let mut jobs: Vec<JobId> = nodes
            .flat_map(|node| self.placed_on(*node).map(Lease::job))
            .filter(|job| self.may_preempt(*job))
            .collect();
        jobs.sort_unstable();
        jobs.dedup();
        if jobs.is_empty() {
            return Vec::new();
        }
        let mut plan = Plan {
            number: self.world.target() + 1,
            parent: self.world.target(),
            made: at,
            actions: Vec::new(),
        };
        let mut after = self.world.clone();
        for job in jobs {
            let action = Action::Preempt {
                job,
                cause: Cause::Drain,
            };
            let begun = TimestampedEvent {
                at,
                event: Event::begun(action.clone()),
            };
            if after.apply(&begun).is_ok() {
                plan.actions.push(action);
            }
        }
        if plan.actions.is_empty() {
            return Vec::new();
        }
        vec![BrokerEvent::Planned {
            placed: Vec::new(),
            plan: NumberedPlanDocument::of(&plan),
        }]
    }

    fn may_preempt(&self, job: JobId) -> bool {
        let state = self.world.job(job);
        state.is_some_and(|state| matches!(state.job.preemption, Preemption::Allowed { .. }))
    }

    pub(crate) fn cordon_set(
        &mut self,
        at: Nanoseconds,
        node: NodeId,
        is_cordoned: bool,
    ) -> Result<(), Broken> {
        let state = self.world.node(node);
        // One that has left keeps nothing.
        let there = state.filter(|state| !state.left || !is_cordoned);
        let below = there.map(|state| (self.health_below(node, state), state.fence().is_none()));
        let Some((health, answers)) = below else {
            return Ok(());
        };
        if is_cordoned {
            self.cordoned.insert(node, health);
        } else {
            self.cordoned.remove(&node);
        }
        // One that does not answer is not said to do.
        if answers {
            return self.fleet_event(at, Event::NodeHealth { node, health });
        }
        Ok(())
    }

    /// An event as it is where nodes are cordoned.
    pub(crate) fn under_cordon(&mut self, event: Event) -> Event {
        let mut shut = |node: NodeId, health: Health| match self.cordoned.get_mut(&node) {
            Some(below) => {
                *below = health;
                closed(health)
            }
            None => health,
        };
        match event {
            Event::NodeHealth { node, health } => Event::NodeHealth {
                node,
                health: shut(node, health),
            },
            Event::NodeJoined { mut node, gpus } => {
                if let Some(id) = self.world.node_named(&node.uid) {
                    node.health = shut(id, node.health);
                }
                Event::NodeJoined { node, gpus }
            }
            other => other,
        }
    }
}

fn fleet(event: &Event) -> BrokerEvent {
    BrokerEvent::Fleet {
        event: EventDocument::of(event),
    }
}
