//! What could be added, brought back, or cut otherwise.

use super::{Costs, Trial, event, share};
use crate::report::capacity::shapes;
use crate::world::{Tenancy, World};
use gpuwise_domain::placement::{
    Action, Event, FleetGpu, GpuAsk, GpuId, Health, IslandId, Node, NodeId, QueueId, Remedy, Uid,
};
use gpuwise_units::{Currency, Money};
use std::sync::Arc;

/// Nodes of one shape that may be bought for a job.
const MOST_NODES: u32 = 4096;

/// Joins nodes like one that is there; GPUs that are in an island are in a new one.
pub(crate) fn joined(world: &mut World, like: NodeId, nodes: u32) -> bool {
    let there = world.nodes.len();
    let made = (0..nodes).map(|number| shape(world, like, (there, number)));
    let made: Option<Vec<(Node, Vec<FleetGpu>)>> = made.collect();
    made.is_some_and(|made| world.joined(&made).is_ok())
}

/// A node like one that is there, the so-manieth of those that join beside those that are there.
fn shape(
    world: &mut World,
    like: NodeId,
    (there, number): (usize, u32),
) -> Option<(Node, Vec<FleetGpu>)> {
    let name = world.node(like)?.node.name.clone();
    let (mut node, gpus) = node_like(world, like, &format!("new {number}"))?;
    node.name = format!("{name} new {number}");
    node.uid = format!("new {}", there + number as usize).into();
    Some((node, gpus))
}

/// A node of this name like one that is there, and its GPUs: those that are in an island of NVLink are in a new one, which
/// the world knows from now on. What buys, what asks what if and what counts a fleet's shortage all mean this node.
pub fn node_like(world: &mut World, like: NodeId, name: &str) -> Option<(Node, Vec<FleetGpu>)> {
    let template = world.node(like)?.node.clone();
    let mut gpus: Vec<FleetGpu> = template
        .gpus
        .iter()
        .filter_map(|gpu| Some(world.gpu(*gpu)?.gpu.clone()))
        .collect();
    let mut fresh: Vec<(IslandId, IslandId)> = Vec::new();
    for gpu in &mut gpus {
        gpu.health = Health::Up;
        let Some(old) = gpu.island else { continue };
        let known = fresh
            .iter()
            .find(|(from, _)| *from == old)
            .map(|(_, to)| *to);
        let new = known.unwrap_or_else(|| {
            let new = IslandId(world.islands.len() as u32);
            Arc::make_mut(&mut world.islands).push(name.to_owned());
            fresh.push((old, new));
            new
        });
        gpu.island = Some(new);
    }
    for gpu in &mut gpus {
        gpu.uid = Uid::default();
    }
    let node = Node {
        name: name.to_owned(),
        uid: Uid::default(),
        health: Health::Up,
        ..template
    };
    Some((node, gpus))
}

/// Brings a node and its GPUs back.
pub(super) fn repaired(world: &mut World, node: NodeId) -> bool {
    let health = Health::Up;
    let gpus = world
        .node(node)
        .map_or_else(Vec::new, |state| state.gpus.clone());
    let closed = |gpu: &&GpuId| {
        world
            .gpu(**gpu)
            .is_some_and(|gpu| !gpu.gpu.health.takes_work())
    };
    let closed: Vec<GpuId> = gpus.iter().filter(closed).copied().collect();
    event(world, Event::NodeHealth { node, health })
        && closed
            .into_iter()
            .all(|gpu| event(world, Event::GpuHealth { gpu, health }))
}

/// Lets a queue take more.
pub(super) fn raised(world: &mut World, queue: QueueId, by_milli: u64) -> bool {
    let Some(mut changed) = world.queues().get(queue.index()).cloned() else {
        return false;
    };
    for quota in &mut changed.quotas {
        quota.nominal_milli = quota.nominal_milli.saturating_add(by_milli);
        quota.cap_milli = quota.cap_milli.map(|cap| cap.saturating_add(by_milli));
    }
    event(world, Event::QueueSet(changed))
}

/// What is on a GPU: each instance by shape, start and whether it is held.
type SearchState = Vec<(u8, u8, bool)>;

impl Trial<'_> {
    /// The fewest nodes of each shape that is there, if that is enough.
    pub(super) fn buy(&mut self) {
        let shapes = shapes(self.world);
        let most = self.job.gang.least.clamp(1, MOST_NODES);
        for like in shapes {
            if !self.holds(&Remedy::Buy { like, nodes: most }) {
                continue;
            }
            let (mut low, mut high) = (1, most);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.holds(&Remedy::Buy {
                    like,
                    nodes: middle,
                }) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            self.add_nodes(like, low);
        }
    }

    fn add_nodes(&mut self, like: NodeId, nodes: u32) {
        let Some(node) = self.world.node(like).map(|state| &state.node) else {
            return;
        };
        let gpus = node.gpus.len() as u64 * u64::from(nodes);
        let kind = node.gpus.first().and_then(|gpu| self.world.gpu(*gpu));
        let kind = kind.and_then(|gpu| self.world.kind(gpu.gpu.kind));
        let with = match kind {
            Some(kind) => format!(" ({}x{})", node.gpus.len(), kind.name),
            None => String::new(),
        };
        let plural = if nodes == 1 { "node" } else { "nodes" };
        let price = price(self.world, like, nodes);
        let what = format!("add {nodes} {plural} like {}{with}", node.name);
        let costs = Costs {
            price,
            all: share(self.lasts(), gpus.max(1), 1),
            ..Costs::default()
        };
        self.add(Remedy::Buy { like, nodes }, what, costs);
    }

    /// A node that takes no work.
    pub(super) fn repair(&mut self) {
        let closed = |id: &NodeId| {
            self.world.node(*id).is_some_and(|node| {
                let mut gpus = node.gpus.iter().filter_map(|gpu| self.world.gpu(*gpu));
                !node.takes_work() || gpus.any(|gpu| !gpu.gpu.health.takes_work())
            })
        };
        let nodes = (0..self.world.nodes().len() as u32).map(NodeId);
        let closed: Vec<NodeId> = nodes.filter(closed).take(16).collect();
        for id in closed {
            let remedy = Remedy::Repair(id);
            if self.holds(&remedy) {
                let name = self
                    .world
                    .node(id)
                    .map_or("", |node| node.node.name.as_str());
                let what = format!("bring back {name}, which takes no new work");
                self.add(remedy, what, Costs::default());
                return;
            }
        }
    }

    /// Idle instances on one GPU are destroyed, or its mode is switched.
    pub(super) fn repartition(&mut self) {
        let wants_instance = matches!(self.job.worker.gpu, GpuAsk::Slice { .. });
        let kinds = self.job.worker.gpu.kinds();
        let mut tried: Vec<(u32, SearchState)> = Vec::new();
        for id in (0..self.world.gpus().len() as u32).map(GpuId) {
            let Some(state) = self.world.gpu(id) else {
                continue;
            };
            if !kinds.has(state.gpu.kind) || !state.takes_work() {
                continue;
            }
            let cut = self
                .world
                .kind(state.gpu.kind)
                .is_some_and(|kind| kind.mig.is_some());
            let mut actions = Vec::new();
            let look: SearchState = match &state.held {
                Tenancy::Free if wants_instance && cut => {
                    actions.push(Action::SetMig { gpu: id, on: true });
                    Vec::new()
                }
                Tenancy::Sliced(instances) => {
                    let idle = instances.iter().filter(|one| one.holder.is_none());
                    let idle: Vec<_> = idle.map(|one| one.start).collect();
                    let all = idle.len() == instances.len();
                    let merge = |start| Action::DestroyInstance { gpu: id, start };
                    actions.extend(idle.into_iter().map(merge));
                    if !wants_instance && all {
                        actions.push(Action::SetMig { gpu: id, on: false });
                    }
                    let look =
                        |one: &crate::world::Instance| (one.shape, one.start, one.holder.is_some());
                    instances.iter().map(look).collect()
                }
                _ => continue,
            };
            // GPUs that look alike on different nodes may differ in what is beside them: a few are tried.
            let alike = tried
                .iter()
                .filter(|one| **one == (state.gpu.kind.0, look.clone()));
            if actions.is_empty() || alike.count() >= 4 {
                continue;
            }
            tried.push((state.gpu.kind.0, look));
            let remedy = Remedy::Repartition(actions.clone());
            if self.holds(&remedy) {
                let what = self.recut_words(id, &actions);
                self.add(remedy, what, Costs::default());
                return;
            }
        }
    }

    fn recut_words(&self, gpu: GpuId, actions: &[Action]) -> String {
        let state = self.world.gpu(gpu);
        let node = state.and_then(|state| self.world.node(state.node?));
        let node = node.map_or("its pool", |node| node.node.name.as_str());
        let index = state.map_or(0, |state| state.gpu.index);
        let merged = actions
            .iter()
            .filter(|one| matches!(one, Action::DestroyInstance { .. }))
            .count();
        let mode = actions.iter().find_map(|one| match one {
            Action::SetMig { on, .. } => Some(if *on { "on" } else { "off" }),
            _ => None,
        });
        let merged = match merged {
            0 => String::new(),
            1 => "destroy the idle instance of".to_owned(),
            many => format!("destroy the {many} idle instances of"),
        };
        match mode {
            Some(mode) if merged.is_empty() => {
                format!("switch MIG {mode} on GPU {index} of {node}, which is idle")
            }
            Some(mode) => format!("{merged} GPU {index} of {node} and switch its MIG {mode}"),
            None => format!("{merged} GPU {index} of {node}"),
        }
    }
}

/// What so many nodes like this one cost an hour; `None`: a price is not known, or there are several
/// currencies.
pub(crate) fn price(world: &World, like: NodeId, nodes: u32) -> Option<Money> {
    let node = &world.node(like)?.node;
    let mut sum: Option<(i128, Currency)> = None;
    for gpu in &node.gpus {
        let kind = world.kind(world.gpu(*gpu)?.gpu.kind)?;
        let each = kind.price?.0;
        let (micros, currency) = sum.unwrap_or((0, each.currency));
        if currency != each.currency {
            return None;
        }
        sum = Some((micros + i128::from(each.micros), currency));
    }
    let (micros, currency) = sum?;
    let micros = i64::try_from(micros * i128::from(nodes)).ok()?;
    Some(Money { micros, currency })
}
