//! How many workers have room: on a node, in a domain, in a fleet; now, or once some have stopped.

use crate::{
    fit, mig,
    world::{GpuState, Instance, Link, StoredJob, Tenancy, World},
};
use gpuwise_domain::placement::{
    GpuAsk, JobId, KindId, Kinds, Level, MigGeometry, NodeId, SliceAsk, Spread, WorkerAsk,
};
use std::collections::BTreeMap;

/// Who counts as gone, and what counts as there.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    /// Jobs that count as gone; sorted.
    pub gone: &'a [JobId],
    /// Nobody holds anything, everything is healthy, and what can be cut can be cut anew.
    pub empty: bool,
}

impl Room<'_> {
    pub const NOW: Room<'static> = Room {
        gone: &[],
        empty: false,
    };
    /// Were the fleet empty.
    pub const EMPTY: Room<'static> = Room {
        gone: &[],
        empty: true,
    };

    fn is_gone(self, job: JobId) -> bool {
        self.empty || self.gone.binary_search(&job).is_ok()
    }

    /// Workers that have room on a node, on GPUs that `allowed` accepts.
    pub fn workers(
        self,
        world: &World,
        id: NodeId,
        ask: &WorkerAsk,
        allowed: &dyn Fn(&GpuState) -> bool,
    ) -> u32 {
        let mut freed = (0, 0);
        for job in self.gone.iter().filter_map(|job| world.job(*job)) {
            let here = job
                .assignments
                .iter()
                .filter(|assignment| assignment.node == id)
                .count() as u64;
            freed.0 += here * job.job.worker.cpu_milli;
            freed.1 += here * job.job.worker.memory_mib;
        }
        self.workers_beside(world, id, ask, allowed, freed)
    }

    /// The same, where it is known what processor time and memory those have on the node who count as gone.
    pub(super) fn workers_beside(
        self,
        world: &World,
        id: NodeId,
        ask: &WorkerAsk,
        allowed: &dyn Fn(&GpuState) -> bool,
        freed: (u64, u64),
    ) -> u32 {
        let Some(node) = world.node(id) else { return 0 };
        if !node.takes_work() && !self.empty {
            return 0;
        }
        let (mut cpu, mut memory) = (node.cpu_free + freed.0, node.memory_free + freed.1);
        if self.empty {
            (cpu, memory) = (node.node.cpu_milli, node.node.memory_mib);
        }
        if cpu < ask.cpu_milli || memory < ask.memory_mib {
            return 0;
        }
        let whole = u64::from(u32::MAX);
        let by_cores = cpu.checked_div(ask.cpu_milli).unwrap_or(whole);
        let by_memory = memory.checked_div(ask.memory_mib).unwrap_or(whole);
        let by_gpu = self.by_gpu(world, id, ask.gpu, allowed);
        by_cores.min(by_memory).min(by_gpu).min(1 << 20) as u32
    }

    fn by_gpu(
        self,
        world: &World,
        id: NodeId,
        ask: GpuAsk,
        allowed: &dyn Fn(&GpuState) -> bool,
    ) -> u64 {
        let Some(node) = world.node(id) else { return 0 };
        let there = node.gpus.iter().filter_map(|gpu| world.gpu(*gpu));
        let there = there
            .filter(|gpu| self.empty || gpu.takes_work())
            .filter(|gpu| allowed(gpu));
        match ask {
            GpuAsk::None => u64::from(u32::MAX),
            GpuAsk::Whole { count, kinds, need } => {
                if !self.empty && self.gone.is_empty() && node.whole_free < count {
                    return 0;
                }
                let kinds = fit::kinds_with(world, kinds, need);
                // Mostly of one kind; others are counted beside it.
                let mut one: Option<(KindId, u64)> = None;
                let mut free: BTreeMap<KindId, u64> = BTreeMap::new();
                for gpu in there.filter(|gpu| kinds.has(gpu.gpu.kind) && self.is_free(gpu)) {
                    match &mut one {
                        None => one = Some((gpu.gpu.kind, 1)),
                        Some((kind, free)) if *kind == gpu.gpu.kind => *free += 1,
                        Some(_) => *free.entry(gpu.gpu.kind).or_default() += 1,
                    }
                }
                let each = |free: u64| free.checked_div(u64::from(count)).unwrap_or(0);
                if self.empty && node.node.slots > 0 {
                    if let Some((kind, own)) = one.take() {
                        *free.entry(kind).or_default() += own;
                    }
                    Self::pooled(world, id, kinds, &mut free);
                }
                let one = one.map_or(0, |(_, free)| each(free));
                one + free.values().map(|free| each(*free)).sum::<u64>()
            }
            GpuAsk::Fraction {
                milli,
                memory_mib,
                isolation,
                kinds,
            } => there
                .filter(|gpu| kinds.has(gpu.gpu.kind))
                .map(|gpu| {
                    let size = world.kind(gpu.gpu.kind).and_then(|kind| kind.memory_mib);
                    let Some((free, memory)) = self.share_free(gpu, size, isolation) else {
                        return 0;
                    };
                    let by_time = free.checked_div(milli).unwrap_or(1000);
                    let wanted = memory_mib.unwrap_or(0);
                    let by_memory = memory.and_then(|memory| memory.checked_div(wanted));
                    u64::from(by_time.min(by_memory.unwrap_or(u32::MAX)))
                })
                .sum(),
            GpuAsk::Slice { slice, kinds } => there
                .filter(|gpu| kinds.has(gpu.gpu.kind))
                .map(|gpu| {
                    let kind = world.kind(gpu.gpu.kind);
                    let geometry = kind.and_then(|kind| kind.mig.as_ref());
                    geometry.map_or(0, |geometry| self.slices(gpu, geometry, slice))
                })
                .sum(),
        }
    }

    /// Whether nobody has anything of a GPU and it is not cut.
    fn is_free(self, gpu: &GpuState) -> bool {
        match &gpu.held {
            Tenancy::Free => true,
            Tenancy::Whole(job) => self.is_gone(*job),
            Tenancy::Shared { holders, .. } => holders.iter().all(|one| self.is_gone(one.job)),
            Tenancy::Sliced(_) => self.empty,
        }
    }

    /// Thousandths and memory that are free for one way of sharing.
    fn share_free(
        self,
        gpu: &GpuState,
        size: Option<u32>,
        isolation: gpuwise_domain::placement::Isolation,
    ) -> Option<(u32, Option<u32>)> {
        if self.is_free(gpu) {
            return Some((1000, size));
        }
        let Tenancy::Shared {
            isolation: present,
            milli_free,
            memory_free,
            holders,
        } = &gpu.held
        else {
            return None;
        };
        if *present != isolation {
            return None;
        }
        let gone = holders.iter().filter(|one| self.is_gone(one.job));
        let (milli, memory) = gone.fold((0, 0), |(milli, memory), one| {
            (milli + one.milli, memory + one.memory_mib)
        });
        Some((milli_free + milli, memory_free.map(|free| free + memory)))
    }

    /// Instances that give what is asked: idle ones, and those that can be created beside what is there.
    fn slices(self, gpu: &GpuState, geometry: &MigGeometry, ask: SliceAsk) -> u64 {
        let stays =
            |one: &&Instance| !self.empty && one.holder.is_none_or(|job| !self.is_gone(job));
        let present: Vec<Instance> = match &gpu.held {
            Tenancy::Sliced(instances) => instances.iter().filter(stays).copied().collect(),
            _ if self.empty => Vec::new(),
            _ => return 0,
        };
        let gives = |shape: u8| {
            let row = geometry.shapes.get(usize::from(shape));
            row.is_some_and(|row| mig::gives(row, &ask))
        };
        let idle = present
            .iter()
            .filter(|one| one.holder.is_none() && gives(one.shape));
        let idle = idle.count() as u64;
        let Some(taken) = geometry.together(present.iter().map(|one| (one.shape, one.start)))
        else {
            return idle;
        };
        let mut most = 0;
        for shape in (0..geometry.shapes.len() as u8).filter(|shape| gives(*shape)) {
            let (mut taken, mut count) = (taken, 0);
            while let Some((_, next)) = geometry.starts(taken, shape).next() {
                (taken, count) = (next, count + 1);
            }
            most = most.max(count);
        }
        idle + most
    }

    /// Pooled GPUs that could be attached to a node beside its own.
    fn pooled(world: &World, id: NodeId, kinds: Kinds, free: &mut BTreeMap<KindId, u64>) {
        let Some(node) = world.node(id) else { return };
        let mut slots = u64::from(node.node.slots);
        for gpu in world.gpus() {
            let pooled = match gpu.gpu.home {
                gpuwise_domain::placement::Home::Pool(pool) => node.node.pools.contains(&pool),
                gpuwise_domain::placement::Home::Node(_) => false,
            };
            // Those that are attached to it were counted with its own.
            let elsewhere = gpu.node != Some(id) || gpu.link == Link::InPool;
            if slots > 0 && pooled && elsewhere && kinds.has(gpu.gpu.kind) {
                *free.entry(gpu.gpu.kind).or_default() += 1;
                slots -= 1;
            }
        }
    }
}

/// Workers that have room in each domain of a level that has any, by its number, or its node's and its
/// own.
pub type Domains = BTreeMap<(u32, u32), u32>;

pub(super) fn domains(world: &World, ask: &WorkerAsk, level: Level, room: Room<'_>) -> Domains {
    let mut found = Domains::new();
    for id in (0..world.nodes().len() as u32).map(NodeId) {
        let mut keys: Vec<(u32, u32)> = match level {
            Level::Node => vec![(id.0, 0)],
            Level::Rack | Level::Block | Level::Zone => {
                let domain = world.domain_of(id, level);
                domain.map(|domain| (domain.0, 0)).into_iter().collect()
            }
            Level::Switch | Level::Numa | Level::Island => {
                let gpus = world.node(id).map_or(&[][..], |node| node.gpus.as_slice());
                let gpus = gpus.iter().filter_map(|gpu| world.gpu(*gpu));
                gpus.filter_map(|gpu| key(gpu, id, level)).collect()
            }
        };
        keys.sort_unstable();
        keys.dedup();
        for place in keys {
            let within = |gpu: &GpuState| match level {
                Level::Switch | Level::Numa | Level::Island => key(gpu, id, level) == Some(place),
                _ => true,
            };
            let workers = room.workers(world, id, ask, &within);
            if workers > 0 {
                *found.entry(place).or_default() += workers;
            }
        }
    }
    found
}

fn key(gpu: &GpuState, node: NodeId, level: Level) -> Option<(u32, u32)> {
    match level {
        Level::Switch => gpu.gpu.switch.map(|switch| (node.0, switch)),
        Level::Numa => gpu.gpu.numa.map(|numa| (node.0, numa)),
        Level::Island => gpu.gpu.island.map(|island| (island.0, 0)),
        _ => None,
    }
}

/// The domain of a level with room for most workers, and for how many; of equals the first.
pub fn best_domain(
    world: &World,
    ask: &WorkerAsk,
    level: Level,
    room: Room<'_>,
) -> Option<(u32, u32)> {
    let found = domains(world, ask, level, room);
    let best = found
        .iter()
        .max_by_key(|(place, workers)| (**workers, std::cmp::Reverse(**place)))?;
    Some((best.0.0, *best.1))
}

/// Workers that have room in a fleet, each node by itself.
pub fn workers_in_all(world: &World, ask: &WorkerAsk, room: Room<'_>) -> u32 {
    let nodes = (0..world.nodes().len() as u32).map(NodeId);
    let each = nodes.map(|id| room.workers(world, id, ask, &|_| true));
    each.fold(0, u32::saturating_add)
}

/// Workers that have room with no more than so many in a domain.
pub fn spread_room(world: &World, ask: &WorkerAsk, spread: Spread, room: Room<'_>) -> u32 {
    let mut found: BTreeMap<(bool, u32), u32> = BTreeMap::new();
    for id in (0..world.nodes().len() as u32).map(NodeId) {
        let domain = match spread.over {
            Level::Rack | Level::Block | Level::Zone => world.domain_of(id, spread.over),
            _ => None,
        };
        let place = domain.map_or((false, id.0), |domain| (true, domain.0));
        let workers = room.workers(world, id, ask, &|_| true);
        let sum = found.entry(place).or_default();
        *sum = sum.saturating_add(workers).min(spread.most);
    }
    found.values().copied().fold(0, u32::saturating_add)
}

/// Workers of a job that have room, all its wishes kept.
pub fn workers_free(world: &World, job: &StoredJob, room: Room<'_>) -> u32 {
    let ask = &job.worker;
    let near = match job.topology {
        Some(wish) if wish.required => {
            best_domain(world, ask, wish.within, room).map_or(0, |(_, workers)| workers)
        }
        _ => workers_in_all(world, ask, room),
    };
    match job.spread {
        Some(spread) => near.min(spread_room(world, ask, spread, room)),
        None => near,
    }
}
