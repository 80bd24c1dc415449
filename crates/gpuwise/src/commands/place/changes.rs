//! `--what-if`: nodes that join, and nodes that go.

use super::Estate;
use crate::{error::Problem, fleet};
use gpuwise_domain::placement::{
    Event, FleetGpu, Health, Home, KindId, Node, NodeId, Stamped,
};

/// A change.
pub(super) enum Change {
    /// A node with so many GPUs of a kind joins.
    Gpus(u32, KindId),
    /// Another node like this one joins.
    Like(NodeId),
    /// A node goes.
    Without(NodeId),
}

/// Reads changes. A kind of GPU that only the catalogue knows becomes one of the fleet.
pub(super) fn read(given: &[String], estate: &mut Estate) -> anyhow::Result<Vec<Change>> {
    given.iter().map(|text| one(text, estate)).collect()
}

fn one(text: &str, estate: &mut Estate) -> anyhow::Result<Change> {
    let node = |estate: &Estate, name: &str| {
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
        return Ok(Change::Without(
            found.ok_or_else(|| wrong(format!("the fleet has no node {name:?}")))?,
        ));
    }
    let Some(added) = text.strip_prefix('+').map(str::trim) else {
        return Err(wrong("expected + or - before it".into()).into());
    };
    if let Some(like) = node(estate, added) {
        return Ok(Change::Like(like));
    }
    let counted = added.split_once('x').and_then(|(count, kind)| {
        let count: u32 = count.trim().parse().ok().filter(|n| (1..=1024).contains(n))?;
        Some((count, kind.trim()))
    });
    let Some((count, name)) = counted else {
        return Err(wrong("neither a node of the fleet nor a number of GPUs".into()).into());
    };
    let known = fleet::known(&estate.loaded.catalogue, name);
    let named = known.as_ref().map_or(name, |known| known.kind.name.as_str());
    let kinds = &estate.fleet.kinds;
    let there = kinds.iter().position(|kind| kind.name == named || kind.name == name);
    let kind = match (there, known) {
        (Some(at), _) => KindId(at as u32),
        (None, Ok(known)) => {
            return Err(wrong(format!(
                "the fleet and its jobs name no {}; add it to the fleet file",
                known.kind.name
            ))
            .into());
        }
        (None, Err(problem)) => return Err(wrong(problem).into()),
    };
    Ok(Change::Gpus(count, kind))
}

/// Makes them.
pub(super) fn make(changes: &[Change], estate: &mut Estate) -> anyhow::Result<()> {
    for (change, number) in changes.iter().zip(1..) {
        let event = match change {
            Change::Without(node) => Event::NodeHealth {
                node: *node,
                health: Health::Maintenance,
            },
            Change::Like(node) => joined(estate, *node, None, number),
            Change::Gpus(count, kind) => {
                let with_it = estate.fleet.nodes.iter().position(|node| {
                    node.gpus.iter().any(|gpu| {
                        let gpu = estate.fleet.gpus.get(gpu.index());
                        gpu.is_some_and(|gpu| gpu.kind == *kind)
                    })
                });
                let like = with_it.unwrap_or(0);
                joined(estate, NodeId(like as u32), Some((*count, *kind)), number)
            }
        };
        let at = estate.world.now();
        estate
            .world
            .apply(&Stamped { at, event })
            .map_err(|refused| Problem::new("--what-if cannot be").because(refused))?;
    }
    Ok(())
}

/// A node like one of the fleet joins; with other GPUs, host memory and cores in proportion. GPUs of the
/// new node are in no island that the fleet names.
fn joined(estate: &Estate, like: NodeId, gpus: Option<(u32, KindId)>, number: u32) -> Event {
    let template = estate.fleet.nodes.get(like.index()).cloned().unwrap_or_default();
    let own = template.gpus.iter().filter_map(|gpu| estate.fleet.gpus.get(gpu.index()));
    let mut members: Vec<FleetGpu> = own.cloned().collect();
    let mut node = Node {
        name: format!("what-if-{number}"),
        health: Health::Up,
        ..template
    };
    if let Some((count, kind)) = gpus {
        let (have, want) = (members.len().max(1) as u64, u64::from(count));
        node.cpu_milli = node.cpu_milli * want / have;
        node.memory_mib = node.memory_mib * want / have;
        let bare = FleetGpu {
            kind,
            home: Home::Node(like),
            index: 0,
            numa: None,
            switch: None,
            island: None,
            rail: None,
            health: Health::Up,
            mig_on: false,
        };
        members = (0..count).map(|index| FleetGpu { index, ..bare.clone() }).collect();
    }
    for gpu in &mut members {
        (gpu.island, gpu.health) = (None, Health::Up);
    }
    Event::NodeJoined {
        node,
        gpus: members,
    }
}
