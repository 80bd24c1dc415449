//! `--what-if`: nodes that join, and nodes that go.

use super::FleetState;
use crate::{error::Problem, fleet};
use gpuwise_domain::{
    catalogue::Catalogue,
    placement::{
        Event, Fleet, FleetGpu, GpuId, GpuKind, Health, Home, KindId, Kinds, Node, NodeId,
        TimestampedEvent, Uid,
    },
};
use gpuwise_sched::report::node_like;

pub(super) enum Change {
    /// A node with so many GPUs of a kind joins.
    Gpus(u32, KindId),
    /// Another node like this one joins.
    Like(NodeId),
    Without(NodeId),
}

/// Kinds of GPU that changes name and only the catalogue knows become kinds of the fleet.
pub(super) fn kinds(given: &[String], fleet: &mut Fleet, catalogue: &Catalogue) {
    for (_, name) in given.iter().filter_map(|text| counted(text)) {
        let Ok(known) = fleet::known(catalogue, name) else {
            continue;
        };
        let there = |kind: &GpuKind| kind.name == name || kind.name == known.kind.name;
        if !fleet.kinds.iter().any(there) && fleet.kinds.len() < Kinds::MOST {
            fleet.kinds.push(known.kind);
        }
    }
}

/// `+2xL40S` as a number and a name.
fn counted(text: &str) -> Option<(u32, &str)> {
    let (count, kind) = text.strip_prefix('+')?.split_once('x')?;
    let count: u32 = count
        .trim()
        .parse()
        .ok()
        .filter(|n| (1..=1024).contains(n))?;
    Some((count, kind.trim()))
}

pub(super) fn read(given: &[String], estate: &FleetState) -> anyhow::Result<Vec<Change>> {
    given.iter().map(|text| one(text, estate)).collect()
}

fn one(text: &str, estate: &FleetState) -> anyhow::Result<Change> {
    let node = |estate: &FleetState, name: &str| {
        let at = estate.fleet.nodes.iter().position(|node| node.name == name);
        at.map(|at| NodeId(at as u32))
    };
    let wrong = |what: String| {
        Problem::new(format!("--what-if {text}: {what}"))
            .hint("+2xL40S: a node with two more; +n3: another like n3; -n3: without n3")
    };
    if let Some(name) = text.strip_prefix('-') {
        let name = name.trim();
        let found = node(estate, name);
        return Ok(Change::Without(found.ok_or_else(|| {
            wrong(format!("the fleet has no node {name:?}"))
        })?));
    }
    let Some(added) = text.strip_prefix('+').map(str::trim) else {
        return Err(wrong("expected + or - before it".into()).into());
    };
    if let Some(like) = node(estate, added) {
        return Ok(Change::Like(like));
    }
    let Some((count, name)) = counted(text) else {
        return Err(wrong("neither a node of the fleet nor a number of GPUs".into()).into());
    };
    let kinds = estate.fleet.kinds.iter().zip(0..);
    let known = fleet::known(&estate.loaded.catalogue, name);
    let known = known.map_or_else(|_| name.to_owned(), |known| known.kind.name);
    let mut named =
        kinds.filter(|(kind, _)| kind.name == known || kind.name.eq_ignore_ascii_case(name));
    let (_, kind) = named.next().ok_or_else(|| {
        wrong(format!(
            "neither the fleet nor the catalogue knows {name:?}"
        ))
    })?;
    let kind = KindId(kind);
    Ok(Change::Gpus(count, kind))
}

pub(super) fn make(changes: &[Change], estate: &mut FleetState) -> anyhow::Result<()> {
    for (change, number) in changes.iter().zip(1..) {
        let event = match change {
            Change::Without(node) => Event::NodeHealth {
                node: *node,
                health: Health::Maintenance,
            },
            Change::Like(node) => like(estate, *node, number)?,
            Change::Gpus(count, kind) => {
                let with_it = estate.fleet.nodes.iter().position(|node| {
                    node.gpus.iter().any(|gpu| {
                        let gpu = estate.fleet.gpus.get(gpu.index());
                        gpu.is_some_and(|gpu| gpu.kind == *kind)
                    })
                });
                let template = NodeId(with_it.unwrap_or(0) as u32);
                if with_it.is_some() && is_whole(&estate.fleet, template, *count, *kind) {
                    like(estate, template, number)?
                } else {
                    joined(estate, template, (*count, *kind), number)
                }
            }
        };
        let at = estate.world.now();
        estate
            .world
            .apply(&TimestampedEvent { at, event })
            .map_err(|refused| Problem::new("--what-if cannot be").because(refused))?;
    }
    Ok(())
}

/// A node like one of the fleet joins: the same that a fix or `capacity` says to add.
fn like(estate: &mut FleetState, like: NodeId, number: u32) -> anyhow::Result<Event> {
    let made = node_like(&mut estate.world, like, &format!("what-if-{number}"));
    let (node, gpus) = made.ok_or_else(|| Problem::new("--what-if: there is no such node"))?;
    Ok(Event::NodeJoined { node, gpus })
}

/// Whether so many GPUs of a kind are all that a node has: then one with as many is like it.
fn is_whole(fleet: &Fleet, node: NodeId, count: u32, kind: KindId) -> bool {
    let gpus = fleet.nodes.get(node.index()).map(|node| &node.gpus);
    gpus.is_some_and(|gpus| {
        let same = |gpu: &GpuId| {
            let gpu = fleet.gpus.get(gpu.index());
            gpu.is_some_and(|gpu| gpu.kind == kind)
        };
        gpus.len() == count as usize && gpus.iter().all(same)
    })
}

/// A node with other GPUs than one of the fleet joins, host memory and cores in proportion. How its GPUs are joined is not
/// known: they are in no island.
fn joined(estate: &FleetState, like: NodeId, (count, kind): (u32, KindId), number: u32) -> Event {
    let template = estate
        .fleet
        .nodes
        .get(like.index())
        .cloned()
        .unwrap_or_default();
    let have = template.gpus.len().max(1) as u64;
    let mut node = Node {
        name: format!("what-if-{number}"),
        uid: Uid::default(),
        health: Health::Up,
        ..template
    };
    let want = u64::from(count);
    // What is not known of one is not known of the other.
    node.cpu_milli = node
        .cpu()
        .map_or(node.cpu_milli, |milli| milli * want / have);
    node.memory_mib = node
        .memory()
        .map_or(node.memory_mib, |mib| mib * want / have);
    let bare = FleetGpu::new(kind, Home::Node(like), 0);
    let gpus = (0..count).map(|index| FleetGpu {
        index,
        ..bare.clone()
    });
    Event::NodeJoined {
        node,
        gpus: gpus.collect(),
    }
}
