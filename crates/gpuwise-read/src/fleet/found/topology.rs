//! `nvidia-smi topo -m`: who is near whom.
//!
//! What the matrix says is taken as it is: NVLink groups are GPUs joined by `NV#`; a switch is what
//! `PIX` and `PXB` connect, NICs included; a GPU's rail is the nearest NIC on its switch. Nothing is
//! derived from the order of numbers.

use super::{FoundGpu, FoundNode};
use crate::{
    fleet::text::Found,
    telemetry::{FieldNames, read as telemetry},
};
use gpuwise_domain::telemetry::Topology;

pub(super) fn read(name: &str, text: &str) -> Found<FoundNode> {
    let found = telemetry(text, &FieldNames::default()).map_err(|error| error.to_string())?;
    let mut notes = Vec::new();
    let read = found.into_iter().find_map(|one| {
        for unread in &one.unread {
            let problem = unread.problem.as_deref().unwrap_or("is not understood");
            notes.push(format!("topo -m: row {}: {problem}", unread.field));
        }
        one.topology
    });
    let topology = read.ok_or("no matrix is in it; expected the output of `nvidia-smi topo -m`")?;
    Ok(FoundNode {
        name: name.into(),
        gpus: gpus(&topology),
        links_said: true,
        notes,
        ..FoundNode::default()
    })
}

fn is_gpu(name: &str) -> bool {
    name.starts_with("GPU")
}

fn gpus(topology: &Topology) -> Vec<FoundGpu> {
    let columns = &topology.columns;
    let link = |row: usize, column: usize| -> &str {
        let row = topology.rows.get(row);
        row.and_then(|row| row.links.get(column))
            .map_or("", String::as_str)
    };
    // Rows and columns name the same parts; a row's place among the columns.
    let places: Vec<Option<usize>> = topology
        .rows
        .iter()
        .map(|row| columns.iter().position(|column| *column == row.name))
        .collect();
    let count = columns.len();
    let near = |a: &str| matches!(a, "PIX" | "PXB");
    let mut groups = Sets::new(count);
    let mut switches = Sets::new(count);
    for (row, place) in places.iter().enumerate() {
        let Some(place) = *place else { continue };
        for column in 0..count {
            let one = link(row, column);
            if one.starts_with("NV") {
                groups.join(place, column);
            } else if near(one) {
                switches.join(place, column);
            }
        }
    }
    let mut out = Vec::new();
    for (row, place) in places.iter().enumerate() {
        let (Some(place), Some(named)) = (*place, topology.rows.get(row)) else {
            continue;
        };
        if !is_gpu(&named.name) {
            continue;
        }
        let nics = || (0..count).filter(|column| columns.get(*column).is_some_and(|c| !is_gpu(c)));
        let nearest = ["PIX", "PXB"]
            .iter()
            .find_map(|kind| nics().find(|column| link(row, *column) == *kind));
        let rail = nearest.and_then(|column| nics().position(|one| one == column));
        out.push(FoundGpu {
            numa: match named.numa.as_slice() {
                [only] => Some(*only),
                _ => None,
            },
            switch: switches.of(place),
            rail: rail.map(|rail| rail as u32),
            group: groups.of(place),
            ..FoundGpu::default()
        });
    }
    renumber(&mut out, |gpu| &mut gpu.group);
    renumber(&mut out, |gpu| &mut gpu.switch);
    out
}

/// Numbers what was named by its first part from 0, in order of first use.
fn renumber(gpus: &mut [FoundGpu], field: fn(&mut FoundGpu) -> &mut Option<u32>) {
    let mut seen: Vec<u32> = Vec::new();
    for gpu in gpus {
        if let Some(name) = field(gpu) {
            let at = seen.iter().position(|one| one == name);
            let at = at.unwrap_or_else(|| {
                seen.push(*name);
                seen.len() - 1
            });
            *name = at as u32;
        }
    }
}

struct Sets {
    parent: Vec<usize>,
    alone: Vec<bool>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Self {
            parent: (0..count).collect(),
            alone: vec![true; count],
        }
    }

    fn root(&self, mut at: usize) -> usize {
        while let Some(next) = self.parent.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        for one in [a, b] {
            if let Some(alone) = self.alone.get_mut(one) {
                *alone = false;
            }
        }
        let (a, b) = (self.root(a), self.root(b));
        if let Some(parent) = self.parent.get_mut(a.max(b)) {
            *parent = a.min(b);
        }
    }

    /// The set's first member; `None` for what is alone.
    fn of(&self, at: usize) -> Option<u32> {
        let alone = self.alone.get(at).copied().unwrap_or(true);
        (!alone).then(|| self.root(at) as u32)
    }
}
