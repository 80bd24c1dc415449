//! How nodes are built: what each could hold if it were idle.

use crate::world::{NodeState, World};
use gpuwise_domain::placement::{KindId, Kinds};

/// Builds that are told apart; further ones are taken together.
pub(super) const BUILDS: usize = 64;

/// How a node is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Build {
    /// The kind of its first GPU.
    kind: Option<KindId>,
    gpus: u32,
    cpu: u64,
    memory: u64,
}

/// How the nodes of a fleet are built.
#[derive(Debug, Clone, Default)]
pub(super) struct Builds(Vec<Build>);

impl Builds {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The build of a node as a set of one.
    pub(super) fn of(&mut self, world: &World, state: &NodeState) -> u64 {
        let node = &state.node;
        let first = node.gpus.first().and_then(|id| world.gpu(*id));
        let build = Build {
            kind: first.map(|gpu| gpu.gpu.kind),
            gpus: node.gpus.len() as u32,
            cpu: node.cpu_milli,
            memory: node.memory_mib,
        };
        let at = self.0.iter().position(|known| *known == build);
        let at = at.unwrap_or_else(|| {
            self.0.push(build);
            self.0.len() - 1
        });
        bit(at)
    }

    /// Builds on whose idle nodes so many GPUs of these kinds, processor time and memory are found.
    pub(super) fn that_hold(&self, kinds: Kinds, gpus: u32, cpu: u64, memory: u64) -> u64 {
        let holds = |build: &Build| {
            build.kind.is_some_and(|kind| kinds.has(kind))
                && build.gpus >= gpus
                && build.cpu >= cpu
                && build.memory >= memory
        };
        let found = self.0.iter().enumerate().filter(|(_, build)| holds(build));
        found.fold(0, |set, (at, _)| set | bit(at))
    }
}

fn bit(at: usize) -> u64 {
    1 << at.min(BUILDS - 1)
}
