//! Fleet files: what there is, how it is joined, and who may take how much of it.
//!
//! The form is described in `docs/reference/fleet-file.md`.

mod domains;
mod doubts;
pub(super) mod kinds;
mod layout;
mod mig;
mod nodes;
mod pools;
mod queues;
mod reservations;
mod tables;

use super::text::{FleetProblems, Problems, TableText, pieces};
use domains::Places;
use gpuwise_domain::{
    fabric::Fabric,
    placement::{Action, Fleet, GpuKind, NodeId, VgpuProfile},
};
use kinds::Kinds;
use std::collections::BTreeMap;
use tables::Head;

/// A kind of GPU as a catalogue knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownGpu {
    /// The kind, by the catalogue's name.
    pub kind: GpuKind,
    /// GPUs that its NVLink or its like joins at most; `None`: it has none.
    pub joined: Option<u32>,
    pub parts: KnownParts,
}

/// How a GPU can be shared by fractions, as far as a catalogue knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownParts {
    /// Clients that share it under MPS at most.
    pub mps_clients: Option<u32>,
    pub vgpu: Vec<VgpuProfile>,
}

/// Finds a GPU by its name as people write it; the text says what is wrong where there is none.
pub type FindGpu<'a> = dyn Fn(&str) -> Result<KnownGpu, String> + 'a;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetFile {
    pub fleet: Fleet,
    /// MIG instances that are there already, as the actions that created them.
    pub present: Vec<Action>,
    /// What is allowed and may be a mistake, a sentence each.
    pub doubts: Vec<String>,
}

/// Nodes and GPUs of one fleet at most: what is beyond it was mistyped.
const MOST: usize = 2_000_000;

/// The fabric file that a fleet file names (`fabric = "fabric.toml"`), to be read beside it.
pub fn fabric_of(text: &str) -> Option<String> {
    let head = pieces(text).next()?;
    head.read::<Head>(&mut Problems::new(""))?.fabric
}

/// Reads a fleet file (TOML). GPUs are found by `find`; `fabric` is the file that it names.
///
/// # Errors
/// With every problem and its line: what is no TOML of this form, names twice or of nothing, sizes of
/// 0, GPUs that nobody knows, instances that a board does not allow, queues in a circle or with more
/// than their parent.
pub fn read_fleet(
    file: &str,
    text: &str,
    fabric: Option<&Fabric>,
    find: &FindGpu<'_>,
) -> Result<FleetFile, FleetProblems> {
    let mut build = Build {
        problems: Problems::new(file),
        out: FleetFile::default(),
        kinds: Kinds::new(find),
        places: Places::default(),
        node_names: BTreeMap::new(),
        wishes: Vec::new(),
        lines: Lines::default(),
    };
    build.sort(text, fabric);
    build.doubts();
    build.problems.finish()?;
    build.out.fleet.name_uids();
    Ok(build.out)
}

/// A fleet while it is read.
struct Build<'a> {
    problems: Problems,
    out: FleetFile,
    kinds: Kinds<'a>,
    places: Places,
    node_names: BTreeMap<String, NodeId>,
    /// Pools that nodes name, with their slots and the line.
    wishes: Vec<(String, NodeId, Option<u32>, usize)>,
    lines: Lines,
}

/// Where things were said, by their number.
#[derive(Default)]
struct Lines {
    nodes: Vec<usize>,
    fabric: usize,
}

/// What is wrong, and with which field.
type Field<T> = Result<T, (&'static str, String)>;

/// Tables by their name, with the order in which they are read.
const TABLES: [&str; 9] = [
    "gpu_kind",
    "zone",
    "block",
    "rack",
    "island",
    "node",
    "pool",
    "queue",
    "reservation",
];

impl Build<'_> {
    fn sort(&mut self, text: &str, fabric: Option<&Fabric>) {
        let mut sorted: [Vec<TableText<'_>>; TABLES.len()] = Default::default();
        for piece in pieces(text) {
            if piece.table.is_empty() {
                self.head(&piece);
                continue;
            }
            let place = TABLES.iter().position(|name| *name == piece.table);
            match place.and_then(|place| sorted.get_mut(place)) {
                Some(pieces) => pieces.push(piece),
                None => self.problems.add(
                    piece.line,
                    format!(
                        "[[{}]] is no table of a fleet file; expected one of {}",
                        piece.table,
                        TABLES.join(", ")
                    ),
                ),
            }
        }
        let [
            kinds,
            zones,
            blocks,
            racks,
            islands,
            nodes,
            pools,
            queues,
            reservations,
        ] = sorted;
        self.kinds.read(&kinds, &mut self.problems);
        self.domains(&zones, &blocks, &racks);
        self.islands(&islands);
        self.nodes(&nodes);
        self.pools(&pools);
        if let Some(fabric) = fabric {
            self.fabric(fabric);
        }
        self.queues(&queues);
        self.reservations(&reservations);
        self.out.fleet.kinds = self.kinds.finish();
        if self.out.fleet.nodes.is_empty() && nodes.is_empty() && self.problems.is_empty() {
            let what = "there is no [[node]]; one has a name, gpus, cpu and memory";
            self.problems.add(0, what);
        }
    }

    fn head(&mut self, piece: &TableText<'_>) {
        let Some(head) = piece.read::<Head>(&mut self.problems) else {
            return;
        };
        self.lines.fabric = piece.line_of("fabric");
        if let Some(table) = &head.sharing {
            let found = queues::sharing(table);
            let found = self.problems.take(piece.line_of("sharing"), found);
            self.out.fleet.sharing = found.unwrap_or_default();
        }
        if let Some(table) = &head.scheduling {
            let found = queues::scheduling(table);
            let found = self.problems.take(piece.line_of("scheduling"), found);
            self.out.fleet.scheduling = found.unwrap_or_default();
        }
        self.out.fleet.scheduling.weighs = head.sharing.as_ref().is_some_and(|table| {
            table.weigh.is_some() || table.half_life.is_some() || table.past.is_some()
        });
        self.out.fleet.name = head.name.unwrap_or_default();
    }
}
