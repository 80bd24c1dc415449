//! Figures of a fleet: held, busy, free and of use, stranded by cause, fairness, waiting.

use super::room::{Room, best_domain};
use crate::world::{GpuState, StoredJob, Tenancy, World};
use gpuwise_domain::placement::{Figures, GpuAsk, NodeId, WorkerAsk};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Something that is asked for, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct Typical {
    pub job: StoredJob,
    /// How often it is asked for.
    pub count: u64,
}

/// Figures of a fleet at a moment, beside [`Figures`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetFigures {
    /// What is there, held and waiting.
    pub basic: Figures,
    /// Thousandths of GPUs that nobody holds, MIG compute slices by their share.
    pub free_milli: u64,
    /// Of these, what typical asks cannot use: for each ask by how often it is made, GPU time that is
    /// free where the ask does not fit, or too small a rest for it.
    pub fragmented_milli: u64,
    /// What cannot be used, by cause; their sum is `fragmented_milli` up to rounding.
    pub stranded: Stranded,
    /// Jain's index of GPU time held by those who hold or ask for some, in thousandths: 1000 all have
    /// alike, 1000 / n one has all. `None`: fewer than two tenants.
    pub fairness_milli: Option<u32>,
    /// Mean and greatest time that those who wait have waited.
    pub waiting: Option<(Nanoseconds, Nanoseconds)>,
}

/// Stranded GPUs, in thousandths, by the first cause that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stranded {
    /// The GPU or its node takes no new work.
    pub closed: u64,
    /// The ask does not accept the kind.
    pub kind: u64,
    /// Too little is left of the GPU, or too few are free together on the node.
    pub remnant: u64,
    /// The GPU's time is free but its memory is not.
    pub memory_of_gpu: u64,
    /// The node's processor time is used up.
    pub cpu: u64,
    /// The node's memory is used up.
    pub memory: u64,
    /// Workers would have room, but not near enough to one another.
    pub topology: u64,
}

impl Stranded {
    /// Each cause in words, and how much.
    pub fn causes(self) -> [(&'static str, u64); 7] {
        [
            ("takes no new work", self.closed),
            ("wrong type", self.kind),
            ("too little left together", self.remnant),
            ("GPU memory used up", self.memory_of_gpu),
            ("CPU used up", self.cpu),
            ("host memory used up", self.memory),
            ("topology", self.topology),
        ]
    }
}

/// What the jobs of a world ask for, most frequent first, until so many thousandths of them are covered.
/// Jobs without GPUs are left out: they can use none.
pub fn typical(world: &World, covered_milli: u32) -> Vec<Typical> {
    let mut counts: BTreeMap<(WorkerAsk, u32, Option<u8>), Typical> = BTreeMap::new();
    for (_, state) in world.jobs() {
        let job = &state.job;
        if job.worker.gpu == GpuAsk::None {
            continue;
        }
        let near = job.topology.filter(|wish| wish.required);
        let key = (
            job.worker,
            job.gang.least,
            near.map(|wish| wish.within as u8),
        );
        let entry = counts.entry(key).or_insert_with(|| Typical {
            job: job.clone(),
            count: 0,
        });
        entry.count += 1;
    }
    let mut asks: Vec<Typical> = counts.into_values().collect();
    asks.sort_by_key(|ask| std::cmp::Reverse(ask.count));
    let all: u64 = asks.iter().map(|ask| ask.count).sum();
    let mut seen = 0;
    asks.retain(|ask| {
        let keep = seen * 1000 < all * u64::from(covered_milli);
        seen += ask.count;
        keep
    });
    asks
}

/// Figures of a world; `asks` are what is typically asked for.
pub fn fleet_figures(world: &World, asks: &[Typical]) -> FleetFigures {
    let mut figures = FleetFigures {
        basic: world.figures(),
        ..FleetFigures::default()
    };
    figures.free_milli = (0..world.nodes().len() as u32)
        .filter_map(|id| world.node(NodeId(id)))
        .flat_map(|node| &node.gpus)
        .filter_map(|gpu| world.gpu(*gpu))
        .map(|gpu| free_of(world, gpu))
        .sum();
    let all: u64 = asks.iter().map(|ask| ask.count).sum();
    let mut sums = [0_u128; 7];
    for ask in asks {
        let found = stranded(world, &ask.job);
        for (sum, milli) in sums.iter_mut().zip(found) {
            *sum += u128::from(milli) * u128::from(ask.count);
        }
    }
    if all > 0 {
        let each = sums.map(|sum| u64::try_from(sum / u128::from(all)).unwrap_or(u64::MAX));
        let [closed, kind, remnant, memory_of_gpu, cpu, memory, topology] = each;
        figures.stranded = Stranded {
            closed,
            kind,
            remnant,
            memory_of_gpu,
            cpu,
            memory,
            topology,
        };
        let whole: u128 = sums.iter().sum::<u128>() / u128::from(all);
        figures.fragmented_milli = u64::try_from(whole).unwrap_or(u64::MAX);
    }
    figures.fairness_milli = fairness(world);
    figures.waiting = waiting(world);
    figures
}

/// Thousandths of a GPU that nobody holds.
fn free_of(world: &World, gpu: &GpuState) -> u64 {
    match &gpu.held {
        Tenancy::Sliced(instances) => {
            let kind = world.kind(gpu.gpu.kind);
            let Some(geometry) = kind.and_then(|kind| kind.mig.as_ref()) else {
                return 0;
            };
            let held = instances.iter().filter(|one| one.holder.is_some());
            let rows = held.filter_map(|one| geometry.shapes.get(usize::from(one.shape)));
            let used: u64 = rows.map(|row| u64::from(row.compute)).sum();
            1000_u64.saturating_sub(1000 * used / u64::from(geometry.compute_slices.max(1)))
        }
        _ => u64::from(gpu.milli_free()),
    }
}

/// What of the free GPU time a job cannot use, by the order of [`Stranded::causes`].
fn stranded(world: &World, job: &StoredJob) -> [u64; 7] {
    let mut found = [0; 7];
    let ask = &job.worker;
    let too_far = job.topology.is_some_and(|wish| {
        let best = best_domain(world, ask, wish.within, Room::NOW);
        wish.required && best.is_none_or(|(_, workers)| workers < job.gang.least)
    });
    let bare = WorkerAsk {
        cpu_milli: 0,
        memory_mib: 0,
        ..*ask
    };
    for (node, id) in world.nodes().iter().zip(0..) {
        let there = node.gpus.iter().filter_map(|gpu| world.gpu(*gpu));
        if there.map(|gpu| free_of(world, gpu)).all(|free| free == 0) {
            continue;
        }
        let fits = |ask: &WorkerAsk| Room::NOW.workers(world, NodeId(id), ask, &|_| true) > 0;
        let (by_gpu, all) = (fits(&bare), fits(ask));
        for gpu in node.gpus.iter().filter_map(|gpu| world.gpu(*gpu)) {
            let free = free_of(world, gpu);
            if free == 0 {
                continue;
            }
            let place = if !node.takes_work() || !gpu.takes_work() {
                0
            } else if !accepts(world, ask.gpu, gpu) {
                1
            } else if let Some(rest) = rest(ask.gpu, gpu) {
                rest
            } else if !by_gpu {
                2
            } else if node.cpu_free < ask.cpu_milli {
                4
            } else if node.memory_free < ask.memory_mib {
                5
            } else if !all {
                2
            } else if too_far {
                6
            } else {
                continue;
            };
            if let Some(sum) = found.get_mut(place) {
                *sum += free;
            }
        }
    }
    found
}

fn accepts(world: &World, ask: GpuAsk, gpu: &GpuState) -> bool {
    let kinds = match ask {
        GpuAsk::Whole { kinds, need, .. } => crate::fit::kinds_with(world, kinds, need),
        other => other.kinds(),
    };
    kinds.has(gpu.gpu.kind)
}

/// Which cause keeps an ask from what is left of this GPU itself, if one does.
fn rest(ask: GpuAsk, gpu: &GpuState) -> Option<usize> {
    match (ask, &gpu.held) {
        (GpuAsk::Whole { .. }, held) => (*held != Tenancy::Free).then_some(2),
        (
            GpuAsk::Fraction {
                milli, memory_mib, ..
            },
            Tenancy::Shared {
                milli_free,
                memory_free,
                ..
            },
        ) => {
            if *milli_free < milli {
                return Some(2);
            }
            let short = memory_free.is_some_and(|free| free < memory_mib.unwrap_or(0));
            short.then_some(3)
        }
        (GpuAsk::Fraction { .. }, Tenancy::Sliced(_)) => Some(2),
        _ => None,
    }
}

/// Jain's index over tenants: (Σ x)² / (n Σ x²), of GPU time held.
fn fairness(world: &World) -> Option<u32> {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, state) in world.jobs() {
        let mine = state.assignments.len() as u64 * state.job.worker.gpu.milli();
        *held.entry(state.job.tenant.as_str()).or_default() += mine;
    }
    let sum: u128 = held.values().map(|milli| u128::from(*milli)).sum();
    let squares: u128 = held.values().map(|milli| u128::from(*milli).pow(2)).sum();
    if held.len() < 2 || squares == 0 {
        return None;
    }
    u32::try_from(1000 * sum * sum / (held.len() as u128 * squares)).ok()
}

fn waiting(world: &World) -> Option<(Nanoseconds, Nanoseconds)> {
    let now = world.now().0;
    let waits = world
        .jobs()
        .filter(|(_, state)| state.phase.waits())
        .map(|(_, state)| now.saturating_sub(state.job.submitted.0));
    let (mut sum, mut most, mut count) = (0_u128, 0, 0_u128);
    for wait in waits {
        (sum, most, count) = (sum + u128::from(wait), most.max(wait), count + 1);
    }
    let mean = sum.checked_div(count)?;
    Some((Nanoseconds(u64::try_from(mean).ok()?), Nanoseconds(most)))
}
