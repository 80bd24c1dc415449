//! What is short for one worker, told without looking at every node.
//!
//! Says what [`shortage`](super::shortage()) says, of tournaments that follow the world's changes: of
//! nodes with the GPUs that are asked for, which has the most processor time, the most memory; which has
//! the most free GPUs.

use super::shortage;
use crate::{
    fit,
    policy::{Indexed, Score, Scored, View},
    report::Room,
    world::{StoredJob, World},
};
use gpuwise_domain::placement::{GpuAsk, KindId, Kinds, NodeId, Shortage, WorkerAsk};
use rustc_hash::FxHashSet;

/// Shapes of asks that each tournament remembers.
const SHAPES: usize = 64;
/// Asks of which it is remembered that they would fit the empty fleet.
const FITTING: usize = 4096;

/// What is remembered of a fleet to say what is short. It is a cache: a fresh one says the same.
#[derive(Debug)]
pub struct ShortageIndex {
    cpu: Indexed<Most>,
    memory: Indexed<Most>,
    gpus: Indexed<Most>,
    /// Kinds that there are, and asks that would fit were the fleet empty; for so many nodes and GPUs.
    present: Kinds,
    fitting: FxHashSet<WorkerAsk>,
    size: (usize, usize),
}

impl Default for ShortageIndex {
    fn default() -> Self {
        let most = |most| Indexed::new(most, Vec::new()).remembering(SHAPES);
        Self {
            cpu: most(Most::Cpu),
            memory: most(Most::Memory),
            gpus: most(Most::Gpus),
            present: Kinds::NONE,
            fitting: FxHashSet::default(),
            size: (0, 0),
        }
    }
}

/// Of what a node should have most.
#[derive(Debug, Clone, Copy)]
enum Most {
    Cpu,
    Memory,
    /// Free GPUs of one kind for whole GPUs, thousandths of one GPU for fractions.
    Gpus,
}

impl Score for Most {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        let most = match self {
            Self::Cpu => view.node.cpu_free,
            Self::Memory => view.node.memory_free,
            Self::Gpus => u64::from(free_gpus(view, ask.gpu)),
        };
        i32::try_from(most).unwrap_or(i32::MAX).into()
    }
}

fn free_gpus(view: &View<'_>, ask: GpuAsk) -> u32 {
    let kinds = match ask {
        GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(view.world, kinds, need),
        GpuAsk::Fraction {
            milli,
            memory_mib,
            isolation,
            kinds,
        } => {
            let scope = fit::Scope::Fleet;
            let rooms = fit::fraction_rooms(
                view.world, view.node, milli, memory_mib, isolation, kinds, scope,
            );
            return rooms.map(|(free, _)| free).max().unwrap_or(0);
        }
        other => other.kinds(),
    };
    let kind = |id| view.world.gpu(id).map(|gpu| gpu.gpu.kind);
    let of = |wanted: KindId| {
        let gpus = view.node.gpus.iter().zip(view.free);
        let free = gpus.filter(|(id, free)| **free == 1000 && kind(**id) == Some(wanted));
        free.count() as u32
    };
    let here = kinds
        .iter()
        .take_while(|kind| kind.index() < view.world.kinds().len());
    here.map(of).max().unwrap_or(0)
}

impl ShortageIndex {
    /// What is short for a job that found no place.
    pub fn shortage(&mut self, world: &World, job: &StoredJob) -> Shortage {
        let ask = &job.worker;
        let simple = job.gang.least <= 1
            && job.spread.is_none()
            && job.topology.is_none_or(|wish| !wish.required)
            && !matches!(
                ask.gpu,
                GpuAsk::Slice { .. } | GpuAsk::Whole { count: 0, .. }
            )
            && world.pools().is_empty();
        if !simple {
            return shortage(world, job);
        }
        self.follow(world);
        let kinds = match ask.gpu {
            GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
            other => other.kinds(),
        };
        if ask.gpu != GpuAsk::None && kinds.and(self.present) == Kinds::NONE {
            return Shortage::NoSuchGpu { kinds };
        }
        if !self.fits_empty(world, ask) || self.cpu.best(world, ask).is_some() {
            return shortage(world, job);
        }
        self.one_worker(world, ask)
    }

    fn follow(&mut self, world: &World) {
        let size = (world.nodes().len(), world.gpus().len());
        if size != self.size {
            self.size = size;
            self.fitting.clear();
            let kinds = world.gpus().iter().map(|gpu| gpu.gpu.kind);
            self.present = kinds.fold(Kinds::NONE, Kinds::with);
        }
    }

    /// Whether a worker would fit were the fleet empty.
    fn fits_empty(&mut self, world: &World, ask: &WorkerAsk) -> bool {
        if self.fitting.contains(ask) {
            return true;
        }
        let mut nodes = (0..world.nodes().len() as u32).map(NodeId);
        let fits = nodes.any(|id| Room::EMPTY.workers(world, id, ask, &|_| true) > 0);
        if fits {
            if self.fitting.len() >= FITTING {
                self.fitting.clear();
            }
            self.fitting.insert(*ask);
        }
        fits
    }

    fn one_worker(&mut self, world: &World, ask: &WorkerAsk) -> Shortage {
        let bare = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: ask.gpu,
        };
        let Some((node, best)) = self.cpu.best(world, &bare) else {
            return self.gpus_short(world, ask.gpu);
        };
        let best = free_or(best, world.node(node).map(|node| node.cpu_free));
        if best < ask.cpu_milli {
            return Shortage::Cpu {
                needed: ask.cpu_milli,
                best,
                node: Some(node),
            };
        }
        if let Some((node, best)) = self.memory.best(world, &bare) {
            let best = free_or(best, world.node(node).map(|node| node.memory_free));
            if best < ask.memory_mib {
                return Shortage::Memory {
                    needed: ask.memory_mib,
                    best,
                    node: Some(node),
                };
            }
        }
        Shortage::Workers { needed: 1, fit: 0 }
    }

    fn gpus_short(&mut self, world: &World, ask: GpuAsk) -> Shortage {
        let least = match ask {
            GpuAsk::Whole { kinds, need, .. } => GpuAsk::Whole {
                count: 1,
                kinds,
                need,
            },
            GpuAsk::Fraction {
                memory_mib,
                isolation,
                kinds,
                ..
            } => GpuAsk::Fraction {
                milli: 1,
                memory_mib,
                isolation,
                kinds,
            },
            GpuAsk::None | GpuAsk::Slice { .. } => {
                return Shortage::Workers { needed: 1, fit: 0 };
            }
        };
        let one = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: least,
        };
        let best = self.gpus.best(world, &one);
        let most = best.map_or(0, |(_, most)| u32::try_from(most).unwrap_or(0));
        match ask {
            GpuAsk::Whole { count, .. } => Shortage::Gpus {
                needed: count,
                best: most,
                node: best.map(|(node, _)| node),
            },
            GpuAsk::Fraction { milli, .. } => Shortage::Fraction {
                needed: milli,
                best: most,
            },
            GpuAsk::None | GpuAsk::Slice { .. } => Shortage::Workers { needed: 1, fit: 0 },
        }
    }
}

/// What a node has, where it is more than a score can say.
fn free_or(points: i32, free: Option<u64>) -> u64 {
    free.unwrap_or(u64::try_from(points).unwrap_or(0))
}
