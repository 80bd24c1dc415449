//! Nodes and their GPUs.

use super::{
    Build, Field, KnownGpu, MOST, domains, layout,
    mig::{self, Cuts},
    tables::NodeTable,
};
use crate::fleet::text::{
    Found, TableText, counted_gpu, cpu_milli, expand, features_of, health, memory_mib, parts,
};
use gpuwise_domain::placement::{
    Action, FleetGpu, GpuId, Health, Home, IslandId, KindId, Node, NodeId, Uid, resource_block_uid,
};

struct Pattern {
    kinds: Vec<KindId>,
    numa: Vec<Option<u32>>,
    switches: Vec<Option<u32>>,
    rails: Vec<Option<u32>>,
    groups: Vec<Option<usize>>,
    cuts: Vec<Cuts>,
    gpu_health: Vec<Health>,
    health: Health,
    cpu_milli: u64,
    memory_mib: u64,
}

impl Build<'_> {
    pub(super) fn nodes(&mut self, pieces: &[TableText<'_>]) {
        for piece in pieces {
            let Some(table) = piece.read::<NodeTable>(&mut self.problems) else {
                continue;
            };
            if let Err((field, problem)) = self.node_table(&table, piece) {
                self.problems.add(piece.line_of(field), problem);
            }
        }
        let missing: Vec<(String, usize)> = self
            .places
            .members
            .iter()
            .filter(|(name, _)| !self.node_names.contains_key(*name))
            .map(|(name, (_, line))| (name.clone(), *line))
            .collect();
        for (name, line) in missing {
            self.problems
                .add(line, format!("there is no [[node]] {name:?}"));
        }
    }

    fn node_table(&mut self, table: &NodeTable, piece: &TableText<'_>) -> Field<()> {
        let names = expand(&table.name).map_err(|problem| ("name", problem))?;
        let pattern = self.pattern(table)?;
        let all = self.out.fleet.gpus.len() + names.len() * pattern.kinds.len();
        if all > MOST || self.out.fleet.nodes.len() + names.len() > MOST {
            let what = format!("the fleet has more than {MOST} nodes or GPUs by here");
            return Err(("name", what));
        }
        let many = names.len();
        let uuids = self
            .uuids(table, many, pattern.kinds.len())
            .map_err(|problem| ("uuids", problem))?;
        let block = self
            .resource_block(table, many)
            .map_err(|problem| ("resource_block", problem))?;
        let places = self.domains_of(table, many)?;
        for (at, name) in names.into_iter().enumerate() {
            let id = NodeId(self.out.fleet.nodes.len() as u32);
            if let Some(other) = self.node_names.insert(name.clone(), id) {
                let line = self.lines.nodes.get(other.index()).copied();
                self.node_names.insert(name.clone(), other);
                let what = format!(
                    "node {name:?} is there twice, first on line {}",
                    line.unwrap_or(0)
                );
                return Err(("name", what));
            }
            let island = self
                .island_of(table, &name)
                .map_err(|problem| ("island", problem))?;
            if island.is_some() && table.nvlink.is_some() {
                let what =
                    format!("node {name:?} is in an island and says nvlink, too; one decides");
                return Err(("nvlink", what));
            }
            let gpus = self.gpus(&pattern, id, &name, island);
            for (gpu, uuid) in gpus.iter().zip(&uuids) {
                if let Some(gpu) = self.out.fleet.gpus.get_mut(gpu.index()) {
                    gpu.uid = uuid.as_str().into();
                }
            }
            self.lines.nodes.push(piece.line);
            self.out.fleet.nodes.push(Node {
                name,
                uid: block.clone(),
                cpu_milli: pattern.cpu_milli,
                memory_mib: pattern.memory_mib,
                gpus,
                domain: domains::nth(&places, at, many),
                pools: Vec::new(),
                slots: 0,
                health: pattern.health,
            });
            let pools = table.pools.as_ref().map_or(&[][..], |pools| pools.all());
            self.wishes.extend(
                pools
                    .iter()
                    .map(|pool| (pool.clone(), id, table.slots, piece.line_of("pools"))),
            );
        }
        Ok(())
    }

    /// What a fabric's manager calls a node, as its lasting id; empty where nobody says.
    fn resource_block(&self, table: &NodeTable, nodes: usize) -> Found<Uid> {
        let Some(block) = &table.resource_block else {
            return Ok(Uid::default());
        };
        if nodes > 1 {
            return Err(format!(
                "a resource block is of one machine, and this table is {nodes}; write a [[node]] for each"
            ));
        }
        let uid = resource_block_uid(block);
        if self.out.fleet.nodes.iter().any(|node| *node.uid == *uid) {
            return Err(format!("resource block {block:?} is there twice"));
        }
        Ok(uid.into())
    }

    /// What the driver calls the GPUs of a node; empty where nobody says.
    fn uuids(&self, table: &NodeTable, nodes: usize, gpus: usize) -> Found<Vec<String>> {
        let Some(uuids) = &table.uuids else {
            return Ok(Vec::new());
        };
        if nodes > 1 {
            return Err(format!(
                "uuids are of one machine, and this table is {nodes}; write a [[node]] for each"
            ));
        }
        if uuids.len() != gpus {
            return Err(format!(
                "there are {} uuids for {gpus} GPUs; each GPU has its own, as `nvidia-smi -L` prints it",
                uuids.len()
            ));
        }
        for (at, uuid) in uuids.iter().enumerate() {
            if !uuid.starts_with("GPU-")
                || !uuid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            {
                return Err(format!(
                    "{uuid:?} is no UUID of a GPU, such as GPU-8f6b9a1c-2d3e-4f50-9a7b-1c2d3e4f5a6b"
                ));
            }
            let known = self
                .out
                .fleet
                .gpus
                .iter()
                .any(|gpu| *gpu.uid == *uuid.as_str());
            if known || uuids.iter().take(at).any(|other| other == uuid) {
                return Err(format!("{uuid} is there twice"));
            }
        }
        Ok(uuids.clone())
    }

    fn pattern(&mut self, table: &NodeTable) -> Field<Pattern> {
        let mut kinds = Vec::new();
        let features = table.features.as_ref().map_or(&[][..], |all| all.all());
        let features = features_of(features).map_err(|problem| ("features", problem))?;
        for text in table.gpus.as_ref().map_or(&[][..], |gpus| gpus.all()) {
            let (count, name) = counted_gpu("gpus", text).map_err(|problem| ("gpus", problem))?;
            let kind = self
                .kinds
                .named_on(&name, &features)
                .map_err(|problem| ("gpus", problem))?;
            kinds.extend((0..count).map(|_| kind));
        }
        let known: Vec<Option<&KnownGpu>> =
            kinds.iter().map(|kind| self.kinds.get(*kind)).collect();
        let count = kinds.len();
        let spots =
            |field, given| layout::spots(field, given, count).map_err(|problem| (field, problem));
        // GPUs of several kinds are not joined unless the file says so.
        let alike = kinds.windows(2).all(|pair| pair.first() == pair.last());
        let joined = known.first().copied().flatten().and_then(|one| one.joined);
        Ok(Pattern {
            numa: spots("numa", table.numa.as_ref())?,
            switches: spots("switches", table.switches.as_ref())?,
            rails: spots("rails", table.rails.as_ref())?,
            groups: layout::groups(table.nvlink.as_ref(), joined.filter(|_| alike), count)
                .map_err(|problem| ("nvlink", problem))?,
            cuts: mig::cuts(table.mig.as_ref(), &known).map_err(|problem| ("mig", problem))?,
            gpu_health: sick(table, count).map_err(|problem| ("gpu_health", problem))?,
            health: table
                .health
                .as_deref()
                .map_or(Ok(Health::Up), health)
                .map_err(|problem| ("health", problem))?,
            cpu_milli: table
                .cpu
                .map_or(Ok(Node::CPU_UNKNOWN), cpu_milli)
                .map_err(|problem| ("cpu", problem))?,
            memory_mib: table
                .memory
                .as_deref()
                .map_or(Ok(Node::MEMORY_UNKNOWN), host_memory)
                .map_err(|problem| ("memory", problem))?,
            kinds,
        })
    }

    fn gpus(
        &mut self,
        pattern: &Pattern,
        node: NodeId,
        name: &str,
        island: Option<IslandId>,
    ) -> Vec<GpuId> {
        let most = pattern
            .groups
            .iter()
            .flatten()
            .max()
            .map_or(0, |group| group + 1);
        let own: Vec<IslandId> = if island.is_none() {
            (0..most)
                .map(|group| {
                    let label = if most > 1 {
                        format!("{name}/{group}")
                    } else {
                        name.to_owned()
                    };
                    self.new_island(label)
                })
                .collect()
        } else {
            Vec::new()
        };
        let mut out = Vec::with_capacity(pattern.kinds.len());
        for (at, kind) in pattern.kinds.iter().enumerate() {
            let id = GpuId(self.out.fleet.gpus.len() as u32);
            let group = pattern.groups.get(at).copied().flatten();
            let cut = pattern.cuts.get(at).and_then(Option::as_ref);
            let spot = |list: &[Option<u32>]| list.get(at).copied().flatten();
            self.out.fleet.gpus.push(FleetGpu {
                kind: *kind,
                uid: Uid::default(),
                home: Home::Node(node),
                index: at as u32,
                numa: spot(&pattern.numa),
                switch: spot(&pattern.switches),
                island: island.or_else(|| own.get(group?).copied()),
                rail: spot(&pattern.rails),
                health: pattern.gpu_health.get(at).copied().unwrap_or_default(),
                mig_on: cut.is_some(),
            });
            for (shape, start) in cut.into_iter().flatten() {
                self.out.present.push(Action::CreateInstance {
                    gpu: id,
                    shape: *shape,
                    start: *start,
                });
            }
            out.push(id);
        }
        out
    }
}

fn host_memory(text: &str) -> Found<u64> {
    let mib = memory_mib("memory", text)?;
    if mib < Node::MEMORY_UNKNOWN {
        return Ok(mib);
    }
    Err(format!("memory is {text:?}; no node has as much"))
}

/// The health of each GPU: up, but for those that `gpu_health` names.
fn sick(table: &NodeTable, count: usize) -> Found<Vec<Health>> {
    let mut out = vec![Health::Up; count];
    for (which, word) in &table.gpu_health {
        let state = health(word)?;
        for number in parts(which, 4096)? {
            let one = out.get_mut(number as usize).ok_or_else(|| {
                format!("gpu_health names GPU {number}, and a node has {count}; they count from 0")
            })?;
            *one = state;
        }
    }
    Ok(out)
}
