//! A fleet as tables: nodes, alike ones together, and kinds of GPU.

use super::{Scene, Use};
use crate::{
    figures::{self, MISSING},
    table::{Cell, Column, Table},
};
use gpuwise_domain::placement::{Fleet, GpuId, Health, Home, Level, Node, NodeId};
use gpuwise_units::Bytes;
use std::collections::BTreeSet;

/// Rows that people are shown; programs get all.
const SHOWN: usize = 48;

/// Nodes in their order, a row each, or a row for alike neighbours where `together`.
pub fn nodes(scene: &Scene<'_>, together: bool) -> Table {
    let mut table = Table::new(vec![
        Column::left("rack", "rack"),
        Column::left("node", "node").wrap(12),
        Column::right("count", "nodes"),
        Column::left("gpus", "GPUs").wrap(14),
        Column::left("state", "state of each").wrap(9),
        Column::right("cores", "cores"),
        Column::right("memory_mib", "memory"),
        Column::left("nvlink", "NVLink"),
        Column::left("numa", "NUMA").priority(1),
        Column::left("rails", "rails").priority(0),
        Column::left("health", "health").wrap(8),
    ]);
    let mut rows: Vec<(Row, Vec<&str>)> = Vec::new();
    for (id, node) in (0..).map(NodeId).zip(&scene.fleet.nodes) {
        let row = Row::of(scene, id, node);
        match rows.last_mut().filter(|(last, _)| together && *last == row) {
            Some((_, names)) => names.push(&node.name),
            None => rows.push((row, vec![&node.name])),
        }
    }
    let hidden = if together {
        rows.len().saturating_sub(SHOWN)
    } else {
        0
    };
    let hidden = if hidden > 1 { hidden } else { 0 };
    let shown = rows.len() - hidden;
    for (row, names) in rows.iter().take(shown) {
        table.push(row.cells(names));
    }
    if hidden > 0 {
        let of: usize = rows.iter().skip(shown).map(|(_, names)| names.len()).sum();
        table.footnote(format!(
            "{hidden} more rows for {of} nodes; --format csv has every node"
        ));
    }
    let used: BTreeSet<Use> = scene
        .placed()
        .map(|(_, node, gpu)| scene.use_of(gpu, node.health))
        .collect();
    let key: Vec<String> = used
        .iter()
        .map(|one| format!("{} {}", one.mark(), one.word()))
        .collect();
    if !key.is_empty() {
        table.footnote(format!(
            "a mark for each GPU: {}; those of one NVLink island stand together",
            key.join(", ")
        ));
    }
    table
}

/// What a row says of a node, or of alike neighbours.
#[derive(PartialEq)]
struct Row {
    rack: Option<String>,
    gpus: String,
    state: String,
    cpu_milli: Option<u64>,
    memory_mib: Option<u64>,
    nvlink: String,
    numa: String,
    rails: String,
    health: String,
}

impl Row {
    fn of(scene: &Scene<'_>, id: NodeId, node: &Node) -> Self {
        let own = |get: fn(&gpuwise_domain::placement::FleetGpu) -> Option<u32>| {
            runs(node.gpus.iter().map(|gpu| scene.gpu(*gpu).and_then(get)))
        };
        Self {
            rack: scene
                .domain(node, Level::Rack)
                .or_else(|| scene.domain(node, Level::Block))
                .map(|(_, name)| name.to_owned()),
            gpus: kinds_of(scene, id),
            state: scene.marks(id, node),
            cpu_milli: node.cpu(),
            memory_mib: node.memory(),
            nvlink: own(|gpu| gpu.island.map(|island| island.0)),
            numa: own(|gpu| gpu.numa),
            rails: own(|gpu| gpu.rail),
            health: health(scene, node),
        }
    }

    fn cells(&self, names: &[&str]) -> Vec<Cell> {
        let name = match names {
            [first, .., last] => format!("{first} … {last}"),
            [one] => (*one).to_owned(),
            [] => String::new(),
        };
        vec![
            self.rack.as_ref().map_or_else(Cell::missing, Cell::text),
            Cell::text(name),
            Cell::count(names.len() as u64),
            Cell::text(&self.gpus),
            Cell::text(&self.state),
            Cell::of(self.cpu_milli, |milli| {
                let cores = milli as f64 / 1000.0;
                Cell::new(figures::number(cores), cores)
            }),
            Cell::of(self.memory_mib, |mib| {
                Cell::new(figures::bytes(Bytes::from_mib(mib)), mib)
            }),
            Cell::text(&self.nvlink),
            Cell::text(&self.numa),
            Cell::text(&self.rails),
            Cell::text(&self.health),
        ]
    }
}

/// `8 × H100`, `2 × L40S + 1 × H100`, with how many can be attached.
fn kinds_of(scene: &Scene<'_>, id: NodeId) -> String {
    let mut runs: Vec<(&str, u32)> = Vec::new();
    for gpu in scene.gpus_of(id) {
        let name = scene.kind(gpu).map_or("?", |kind| kind.name.as_str());
        match runs.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => runs.push((name, 1)),
        }
    }
    let mut parts: Vec<String> = runs
        .iter()
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    let slots = scene
        .fleet
        .nodes
        .get(id.index())
        .map_or(0, |node| node.slots);
    if slots > 0 {
        parts.push(format!("up to {slots} attached"));
    }
    if parts.is_empty() {
        MISSING.into()
    } else {
        parts.join(" + ")
    }
}

/// How many neighbours are together: `4+4`; `–` where nothing is known.
fn runs(of: impl Iterator<Item = Option<u32>>) -> String {
    let mut out: Vec<(Option<u32>, u32)> = Vec::new();
    for one in of {
        match out.last_mut() {
            Some((last, count)) if *last == one && one.is_some() => *count += 1,
            _ => out.push((one, 1)),
        }
    }
    if out.iter().all(|(one, _)| one.is_none()) {
        return MISSING.into();
    }
    if out.len() > 2 && out.iter().all(|(one, count)| one.is_some() && *count == 1) {
        return format!("{} × 1", out.len());
    }
    let parts: Vec<String> = out.iter().map(|(_, count)| count.to_string()).collect();
    parts.join("+")
}

fn health(scene: &Scene<'_>, node: &Node) -> String {
    let word = |health: Health| match health {
        Health::Up => "✓ up".to_owned(),
        Health::Draining => "▲ draining".into(),
        Health::Maintenance => "▲ maintenance".into(),
        Health::Lost { xid: 0 } => "✗ lost".into(),
        Health::Lost { xid } => format!("✗ XID {xid}"),
    };
    let mut parts = vec![word(node.health)];
    for gpu in &node.gpus {
        if let Some(gpu) = scene.gpu(*gpu)
            && gpu.health != Health::Up
        {
            parts.push(format!("GPU {} {}", gpu.index, word(gpu.health)));
        }
    }
    if parts.len() > 1 && node.health == Health::Up {
        parts.remove(0);
    }
    parts.join(", ")
}

/// Kinds of GPU: how many, how many of them can be used, what each is.
pub fn kinds(scene: &Scene<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::right("count", "there are"),
        Column::right("usable", "usable"),
        Column::right("free", "free"),
        Column::right("pooled", "in pools"),
        Column::right("memory_mib", "memory of each"),
        Column::left("mig", "MIG"),
        Column::right("price_per_hour", "price").unit("/h"),
    ]);
    for (at, kind) in scene.fleet.kinds.iter().enumerate() {
        let of = |gpu: GpuId| scene.gpu(gpu).is_some_and(|gpu| gpu.kind.index() == at);
        let uses: Vec<Use> = scene
            .placed()
            .filter(|(_, _, gpu)| of(*gpu))
            .map(|(_, node, gpu)| scene.use_of(gpu, node.health))
            .collect();
        let usable = uses.iter().filter(|one| **one < Use::Draining).count();
        let free = uses.iter().filter(|one| **one == Use::Free).count();
        let all = scene.fleet.gpus.iter().filter(|gpu| gpu.kind.index() == at);
        let pooled = all.clone().filter(|gpu| matches!(gpu.home, Home::Pool(_)));
        table.push(vec![
            Cell::text(kind.label()),
            Cell::count(all.count() as u64),
            Cell::count(usable as u64),
            Cell::count(free as u64),
            Cell::count(pooled.count() as u64),
            Cell::of(kind.memory_mib, |mib| {
                let bytes = Bytes::from_mib(u64::from(mib));
                Cell::new(figures::bytes(bytes), mib)
            }),
            Cell::text(match &kind.mig {
                Some(board) => format!(
                    "{} compute, {} memory",
                    board.compute_slices, board.memory_slices
                ),
                None => MISSING.into(),
            }),
            Cell::of(kind.price, |price| {
                let shown = format!("{} {}", figures::hourly(price), price.0.currency);
                Cell::new(shown, price.0.as_f64())
            }),
        ]);
    }
    table.footnote("usable: in a node that takes work, the GPU itself being up; free: all of it");
    table
}

/// One sentence: how large the fleet is, and how much of it can be used.
pub fn summary(scene: &Scene<'_>) -> String {
    let fleet: &Fleet = scene.fleet;
    let racks = fleet.domains.iter().filter(|one| one.level == Level::Rack);
    let uses = scene
        .placed()
        .map(|(_, node, gpu)| scene.use_of(gpu, node.health));
    let (mut unusable, mut gpus) = (0_u64, 0_u64);
    for one in uses {
        gpus += 1;
        unusable += u64::from(one >= Use::Draining);
    }
    let pooled = fleet
        .gpus
        .iter()
        .filter(|gpu| matches!(gpu.home, Home::Pool(_)));
    let mut parts = vec![
        many(fleet.nodes.len() as u64, "node"),
        format!("{} in them", many(gpus, "GPU")),
    ];
    for (count, what) in [
        (racks.count() as u64, "rack"),
        (fleet.islands.len() as u64, "NVLink island"),
        (fleet.queues.len() as u64, "queue"),
        (fleet.reservations.len() as u64, "reservation"),
    ] {
        if count > 0 {
            parts.push(many(count, what));
        }
    }
    let pooled = pooled.count() as u64;
    if pooled > 0 {
        parts.push(format!(
            "{} in {}",
            many(pooled, "GPU"),
            many(fleet.pools.len() as u64, "pool")
        ));
    }
    let name = if fleet.name.is_empty() {
        String::new()
    } else {
        format!("{}: ", fleet.name)
    };
    let state = match unusable {
        0 => "all can be used".to_owned(),
        some => format!("{} cannot be used now", many(some, "GPU")),
    };
    format!("{name}{}; {state}", parts.join(", "))
}

fn many(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", figures::count(count))
}
