//! What is short for a job that finds no place.

use crate::{fit, world::World};
use gpuwise_domain::placement::{GpuAsk, Job, NodeId, Shortage};

/// What is short: the first thing that no node, or too few of them, has.
pub fn shortage(world: &World, job: &Job) -> Shortage {
    let ask = &job.worker;
    let kinds = match ask.gpu {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    };
    let right = |id: NodeId| {
        ask.gpu == GpuAsk::None
            || world.node(id).is_some_and(|node| {
                let mut gpus = node.gpus.iter().filter_map(|gpu| world.gpu(*gpu));
                gpus.any(|gpu| kinds.has(gpu.gpu.kind))
            })
    };
    let nodes: Vec<NodeId> = (0..world.nodes().len() as u32)
        .map(NodeId)
        .filter(|id| right(*id))
        .collect();
    if nodes.is_empty() {
        return Shortage::NoSuchGpu { kinds };
    }
    let with_gpus: Vec<NodeId> = nodes
        .iter()
        .copied()
        .filter(|id| {
            let mut bare = *ask;
            (bare.cpu_milli, bare.memory_mib) = (0, 0);
            fit::seat(world, *id, &bare, fit::Scope::Fleet).is_some()
        })
        .collect();
    if with_gpus.is_empty() {
        return gpus_short(world, ask.gpu, &nodes);
    }
    let most = |of: fn(&crate::world::NodeState) -> u64| {
        let best = with_gpus
            .iter()
            .filter_map(|id| Some((of(world.node(*id)?), *id)));
        best.max_by_key(|(free, id)| (*free, std::cmp::Reverse(*id)))
    };
    if let Some((best, node)) = most(|node| node.cpu_free)
        && best < ask.cpu_milli
    {
        return Shortage::Cpu {
            needed: ask.cpu_milli,
            best,
            node: Some(node),
        };
    }
    if let Some((best, node)) = most(|node| node.memory_free)
        && best < ask.memory_mib
    {
        return Shortage::Memory {
            needed: ask.memory_mib,
            best,
            node: Some(node),
        };
    }
    Shortage::Workers {
        needed: job.gang.least,
        fit: 0,
    }
}

fn gpus_short(world: &World, ask: GpuAsk, nodes: &[NodeId]) -> Shortage {
    match ask {
        GpuAsk::Fraction { milli, .. } => {
            let gpus = nodes.iter().filter_map(|id| world.node(*id));
            let free = gpus
                .flat_map(|node| &node.gpus)
                .filter_map(|gpu| world.gpu(*gpu))
                .filter(|gpu| gpu.takes_work())
                .map(crate::world::GpuState::milli_free);
            Shortage::Fraction {
                needed: milli,
                best: free.max().unwrap_or(0),
            }
        }
        GpuAsk::Slice { .. } => Shortage::Slice,
        GpuAsk::Whole { count, .. } => {
            let free = nodes
                .iter()
                .filter_map(|id| Some((world.node(*id)?.whole_free, *id)));
            let best = free.max_by_key(|(free, id)| (*free, std::cmp::Reverse(*id)));
            Shortage::Gpus {
                needed: count,
                best: best.map_or(0, |(free, _)| free),
                node: best.map(|(_, id)| id),
            }
        }
        GpuAsk::None => Shortage::Workers { needed: 1, fit: 0 },
    }
}
