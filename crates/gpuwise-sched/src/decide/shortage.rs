//! What is short for a job that finds no place.

use crate::{
    fit,
    report::{Room, best_domain, spread_room, workers_free, workers_in_all},
    world::{GpuState, StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, Kinds, NodeId, Shortage, WorkerAsk};
use std::cmp::Reverse;

/// What is short: the first thing that no node, or too few of them, has.
pub fn shortage(world: &World, job: &StoredJob) -> Shortage {
    let ask = &job.worker;
    let kinds = match ask.gpu {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    };
    let there = world.gpus().iter().any(|gpu| kinds.has(gpu.gpu.kind));
    if ask.gpu != GpuAsk::None && !there {
        return Shortage::NoSuchGpu { kinds };
    }
    let needed = job.gang.least.max(1);
    let empty = workers_free(world, job, Room::EMPTY);
    if empty < needed {
        return Shortage::LargerThanFleet { fit: empty, needed };
    }
    let fit = workers_in_all(world, ask, Room::NOW);
    if fit == 0 {
        return one_worker(world, ask, kinds);
    }
    if let Some(wish) = job.topology
        && wish.required
    {
        let best = best_domain(world, ask, wish.within, Room::NOW);
        if best.is_none_or(|(_, workers)| workers < needed) {
            return Shortage::Topology {
                within: wish.within,
                needed,
                best: best.map_or(0, |(_, workers)| workers),
                place: best.map(|(place, _)| place),
            };
        }
    }
    if let Some(spread) = job.spread {
        let room = spread_room(world, ask, spread, Room::NOW);
        if room < needed && room < fit {
            return Shortage::Spread { needed, fit: room };
        }
    }
    Shortage::Workers { needed, fit }
}

/// What is short for one worker: GPUs on one node, or what must be beside them.
fn one_worker(world: &World, ask: &WorkerAsk, kinds: Kinds) -> Shortage {
    let bare = WorkerAsk {
        cpu_milli: 0,
        memory_mib: 0,
        ..*ask
    };
    let nodes = || (0..world.nodes().len() as u32).map(NodeId);
    let with_gpus: Vec<NodeId> = nodes()
        .filter(|id| Room::NOW.workers(world, *id, &bare, &|_| true) > 0)
        .collect();
    if with_gpus.is_empty() {
        return gpus_short(world, ask.gpu, kinds);
    }
    let most = |of: fn(&crate::world::NodeState) -> u64| {
        let best = with_gpus
            .iter()
            .filter_map(|id| Some((of(world.node(*id)?), *id)));
        best.max_by_key(|(free, id)| (*free, Reverse(*id)))
    };
    let cpu = most(|node| node.cpu_free);
    if let Some((best, node)) = cpu.filter(|(best, _)| *best < ask.cpu_milli) {
        return Shortage::Cpu {
            needed: ask.cpu_milli,
            best,
            node: Some(node),
        };
    }
    let memory = most(|node| node.memory_free);
    if let Some((best, node)) = memory.filter(|(best, _)| *best < ask.memory_mib) {
        return Shortage::Memory {
            needed: ask.memory_mib,
            best,
            node: Some(node),
        };
    }
    // Some have the processor time and others the memory.
    Shortage::Workers { needed: 1, fit: 0 }
}

fn gpus_short(world: &World, ask: GpuAsk, kinds: Kinds) -> Shortage {
    match ask {
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            ..
        } => {
            // On nodes that take work, of GPUs that nobody holds or that are shared in this way.
            let nodes = world.nodes().iter().filter(|node| node.takes_work());
            let scope = fit::Scope::Fleet;
            let free = nodes.flat_map(|node| {
                fit::fraction_rooms(world, node, 1, memory_mib, isolation, kinds, scope)
            });
            Shortage::Fraction {
                needed: milli,
                best: free.map(|(free, _)| free).max().unwrap_or(0),
            }
        }
        GpuAsk::Slice { .. } => Shortage::Slice,
        GpuAsk::Whole { count, kinds, need } => {
            let one = WorkerAsk {
                cpu_milli: 0,
                memory_mib: 0,
                gpu: GpuAsk::Whole {
                    count: 1,
                    kinds,
                    need,
                },
            };
            // GPUs of a worker are all of one kind, so of several kinds the most of one counts.
            let most = |id: NodeId| {
                let each = kinds.iter().take(world.kinds().len());
                let of = |kind| {
                    let only = |gpu: &GpuState| gpu.gpu.kind == kind;
                    Room::NOW.workers(world, id, &one, &only)
                };
                each.map(of).max().unwrap_or(0)
            };
            let nodes = (0..world.nodes().len() as u32).map(NodeId);
            let best = nodes.map(|id| (most(id), id));
            let best = best.max_by_key(|(free, id)| (*free, Reverse(*id)));
            Shortage::Gpus {
                needed: count,
                best: best.map_or(0, |(free, _)| free),
                node: best.filter(|(free, _)| *free > 0).map(|(_, id)| id),
            }
        }
        GpuAsk::None => Shortage::Workers { needed: 1, fit: 0 },
    }
}
