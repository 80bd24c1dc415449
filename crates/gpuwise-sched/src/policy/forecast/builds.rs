//! How nodes are built: what each could hold if it were idle.

use crate::world::{NodeState, World};
use gpuwise_domain::placement::{KindId, Kinds, NodeId};

/// Builds that are told apart; further ones are taken together.
pub(super) const BUILDS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Build {
    /// The kind of its first GPU.
    kind: Option<KindId>,
    gpus: u32,
    cpu: u64,
    memory: u64,
}

/// How the nodes of a fleet are built: a function of the fleet alone, whatever was looked at before.
#[derive(Debug, Clone, Default)]
pub(super) struct Builds {
    /// In the order of the first node of each.
    list: Vec<Build>,
    nodes: Vec<u32>,
}

impl Builds {
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether builds are numbered alike.
    pub(super) fn alike(&self, other: &Self) -> bool {
        self.list == other.list
    }

    /// Takes in nodes that have joined. `false`: of those that changed one is built otherwise than it was,
    /// or is not there: this is another fleet.
    pub(super) fn follow(&mut self, world: &World, changed: &[NodeId]) -> bool {
        let known = self.nodes.len();
        let same = |id: &NodeId| {
            let Some(number) = self.nodes.get(id.index()) else {
                return world.node(*id).is_some();
            };
            let build = world.node(*id).map(|node| Build::of(world, node));
            build.as_ref() == self.list.get(*number as usize)
        };
        if world.nodes().len() < known || !changed.iter().all(same) {
            return false;
        }
        for id in (known..world.nodes().len()).map(|at| NodeId(at as u32)) {
            let Some(node) = world.node(id) else {
                return false;
            };
            let build = Build::of(world, node);
            let at = self.list.iter().position(|known| *known == build);
            let at = at.unwrap_or_else(|| {
                self.list.push(build);
                self.list.len() - 1
            });
            self.nodes.push(at as u32);
        }
        true
    }

    pub(super) fn of(&self, id: NodeId) -> u64 {
        bit(self.nodes.get(id.index()).copied().unwrap_or(0) as usize)
    }

    /// Builds on whose idle nodes so many GPUs of these kinds, processor time and memory are found.
    pub(super) fn that_hold(&self, kinds: Kinds, gpus: u32, cpu: u64, memory: u64) -> u64 {
        let holds = |build: &Build| {
            build.kind.is_some_and(|kind| kinds.has(kind))
                && build.gpus >= gpus
                && build.cpu >= cpu
                && build.memory >= memory
        };
        let found = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, build)| holds(build));
        found.fold(0, |set, (at, _)| set | bit(at))
    }
}

impl Build {
    fn of(world: &World, state: &NodeState) -> Self {
        let node = &state.node;
        let first = node.gpus.first().and_then(|id| world.gpu(*id));
        Self {
            kind: first.map(|gpu| gpu.gpu.kind),
            gpus: node.gpus.len() as u32,
            cpu: node.cpu_milli,
            memory: node.memory_mib,
        }
    }
}

fn bit(at: usize) -> u64 {
    1 << at.min(BUILDS - 1)
}
