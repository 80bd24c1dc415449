//! Whether a worker fits a node, and on which of its GPUs.

use crate::world::{GpuState, NodeState, Tenancy, World};
use gpuwise_domain::placement::{
    Action, Assignment, DomainId, GpuAsk, GpuId, GpuShare, IslandId, Isolation, Kinds, Level, Need,
    NodeId, Part, WorkerAsk,
};

/// Where one worker could run, and what must be done first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub assignment: Assignment,
    /// What must be done before: instances cut, GPUs attached; mostly nothing.
    pub prepare: Vec<Action>,
}

/// Where workers may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Fleet,
    /// In a rack, a block or a zone.
    Domain(Level, DomainId),
    /// On GPUs of an island of NVLink or its like.
    Island(IslandId),
    Node(NodeId),
    /// On GPUs of one NUMA node or PCIe switch of a node, by its number there.
    Part(NodeId, Level, u32),
}

impl Scope {
    /// Whether a node may be looked at.
    pub fn has_node(self, world: &World, node: NodeId) -> bool {
        match self {
            Self::Fleet => true,
            Self::Domain(level, domain) => world.domain_of(node, level) == Some(domain),
            Self::Node(only) | Self::Part(only, ..) => only == node,
            Self::Island(island) => world.node(node).is_some_and(|state| {
                let in_it = |gpu: &GpuId| {
                    let state = world.gpu(*gpu);
                    state.is_some_and(|state| state.gpu.island == Some(island))
                };
                state.gpus.iter().any(in_it)
            }),
        }
    }

    /// Nodes among which all of its nodes are, in their order: so many of the fleet's, or these.
    pub(crate) fn among<'a>(&'a self, world: &'a World) -> (u32, &'a [NodeId]) {
        match self {
            Self::Fleet => (world.nodes().len() as u32, &[]),
            Self::Node(node) | Self::Part(node, ..) => (0, std::slice::from_ref(node)),
            Self::Island(island) => (0, world.island_nodes(*island)),
            Self::Domain(_, domain) => (0, world.domain_nodes(*domain)),
        }
    }

    /// Whether a GPU may be used.
    pub fn has_gpu(self, gpu: &GpuState) -> bool {
        match self {
            Self::Island(island) => gpu.gpu.island == Some(island),
            Self::Part(_, Level::Numa, numa) => gpu.gpu.numa == Some(numa),
            Self::Part(_, _, switch) => gpu.gpu.switch == Some(switch),
            Self::Fleet | Self::Domain(..) | Self::Node(_) => true,
        }
    }
}

/// The kinds of a fleet that are allowed and have what is needed. What is unknown is not enough.
pub fn kinds_with(world: &World, kinds: Kinds, need: Need) -> Kinds {
    let enough = |have: Option<u32>, wanted: u32| wanted == 0 || have.is_some_and(|h| h >= wanted);
    world
        .kinds()
        .iter()
        .zip(0..)
        .filter(|(kind, _)| {
            enough(kind.memory_mib, need.memory_mib)
                && enough(kind.tflops, need.tflops)
                && enough(kind.bandwidth_gbs, need.bandwidth_gbs)
        })
        .fold(Kinds::NONE, |set, (_, id)| {
            set.with(gpuwise_domain::placement::KindId(id))
        })
        .and(kinds)
}

/// Where a worker would run on a node by the usual rules: whole GPUs of lowest index, a fraction on
/// the GPU with the least room that is enough, an instance where one is idle. `None`: it does not fit.
pub fn assignment(world: &World, id: NodeId, ask: &WorkerAsk, scope: Scope) -> Option<Candidate> {
    let node = world.node(id)?;
    if !fits_host(node, ask) {
        return None;
    }
    let (shares, prepare) = match ask.gpu {
        GpuAsk::None => (Vec::new(), Vec::new()),
        GpuAsk::Whole { count, kinds, need } => {
            let kinds = kinds_with(world, kinds, need);
            (whole(world, node, count, kinds, scope)?, Vec::new())
        }
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            kinds,
        } => {
            let room = fraction_rooms(world, node, milli, memory_mib, isolation, kinds, scope);
            // The least room that is enough; of equals the lowest index.
            let (_, gpu) = room.min_by_key(|(free, _)| *free)?;
            (
                vec![fraction_share(gpu, milli, memory_mib, isolation)],
                Vec::new(),
            )
        }
        GpuAsk::Slice { slice, kinds } => crate::mig::assignment(world, node, slice, kinds, scope)?,
    };
    let assignment = Assignment {
        node: id,
        gpus: shares,
    };
    Some(Candidate {
        assignment,
        prepare,
    })
}

/// Whether a node takes work and has the processor time and memory.
pub fn fits_host(node: &NodeState, ask: &WorkerAsk) -> bool {
    node.takes_work() && node.cpu_free >= ask.cpu_milli && node.memory_free >= ask.memory_mib
}

/// A share of a GPU's time.
pub fn fraction_share(
    gpu: GpuId,
    milli: u32,
    memory_mib: Option<u32>,
    isolation: Isolation,
) -> GpuShare {
    GpuShare {
        gpu,
        part: Part::Fraction {
            milli,
            memory_mib: memory_mib.unwrap_or(0),
            isolation,
        },
    }
}

/// GPUs of a node that have room for a fraction: thousandths free, and which; by index.
pub fn fraction_rooms<'w>(
    world: &'w World,
    node: &'w NodeState,
    milli: u32,
    memory_mib: Option<u32>,
    isolation: Isolation,
    kinds: Kinds,
    scope: Scope,
) -> impl Iterator<Item = (u32, GpuId)> + 'w {
    node.gpus.iter().filter_map(move |id| {
        let gpu = world.gpu(*id)?;
        if !gpu.takes_work() || !kinds.has(gpu.gpu.kind) || !scope.has_gpu(gpu) {
            return None;
        }
        let memory = world.kind(gpu.gpu.kind)?.memory_mib;
        let wanted = memory_mib.unwrap_or(0);
        let (free, memory_free, same) = match &gpu.held {
            Tenancy::Free => (1000, memory, true),
            Tenancy::Shared {
                isolation: present,
                milli_free,
                memory_free,
                ..
            } => (*milli_free, *memory_free, *present == isolation),
            Tenancy::Whole(_) | Tenancy::Sliced(_) => return None,
        };
        let room = same && free >= milli && memory_free.is_none_or(|free| free >= wanted);
        room.then_some((free, *id))
    })
}

/// So many free GPUs of one kind, of lowest index; of the kinds the first that has enough.
fn whole(
    world: &World,
    node: &NodeState,
    count: u32,
    kinds: Kinds,
    scope: Scope,
) -> Option<Vec<GpuShare>> {
    if node.whole_free < count {
        return None;
    }
    let free = |id: &&GpuId| {
        world.gpu(**id).is_some_and(|gpu| {
            gpu.takes_work()
                && gpu.held == Tenancy::Free
                && kinds.has(gpu.gpu.kind)
                && scope.has_gpu(gpu)
        })
    };
    let usable: Vec<GpuId> = node.gpus.iter().filter(free).copied().collect();
    let kind_of = |id: &GpuId| world.gpu(*id).map(|gpu| gpu.gpu.kind);
    for first in &usable {
        let kind = kind_of(first);
        let alike = usable.iter().filter(|id| kind_of(id) == kind);
        let shares: Vec<GpuShare> = alike
            .take(count as usize)
            .map(|gpu| GpuShare {
                gpu: *gpu,
                part: Part::Whole,
            })
            .collect();
        if shares.len() == count as usize {
            return Some(shares);
        }
    }
    None
}
