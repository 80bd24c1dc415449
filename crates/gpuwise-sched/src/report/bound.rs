//! What no policy can pass: an upper bound of the GPU time that those who wait can be given, whoever
//! decides, while those who run stay.
//!
//! A relaxation: jobs may be cut into any pieces, over any nodes, and gangs and wishes count for
//! nothing. Each node bears no more than its free GPU time, and no more than its free processor time and
//! memory allow when those who ask go first who need least of it for their GPU time. What of the asks
//! can flow to kinds of GPU that they accept is a flow of greatest value, so no placement gives more.

use crate::{
    fit,
    world::{GpuState, Tenancy, World},
};
use gpuwise_domain::placement::{GpuAsk, JobId, KindId, Kinds};
use std::collections::{BTreeMap, VecDeque};

/// Those who ask alike: kinds that they accept, and what they need for each thousandth of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    kinds: Kinds,
    /// Processor time and memory of a worker, and its thousandths of GPUs.
    cpu: u64,
    memory: u64,
    milli: u64,
    /// Thousandths that all of them ask for.
    asked: u64,
}

/// Thousandths of GPUs that `jobs` can be given at most. Jobs that ask for MIG instances or for no GPU
/// count for nothing.
pub fn most_placed(world: &World, jobs: &[JobId]) -> u64 {
    let classes = classes(world, jobs);
    let kinds = world.kinds().len();
    let mut room = vec![0_u64; kinds];
    for node in world.nodes() {
        if !node.takes_work() && node.node.slots == 0 {
            continue;
        }
        for (kind, room) in (0..).map(KindId).zip(&mut room) {
            let there = node.gpus.iter().filter_map(|gpu| world.gpu(*gpu));
            let free: u64 = there
                .filter(|gpu| gpu.gpu.kind == kind && gpu.takes_work())
                .map(free_milli)
                .sum();
            if free > 0 && node.takes_work() {
                *room += free.min(by_host(&classes, kind, node.cpu_free, node.memory_free));
            }
        }
    }
    // Pooled GPUs could be attached somewhere.
    for gpu in world.gpus().iter().filter(|gpu| gpu.node.is_none()) {
        if gpu.gpu.health.takes_work()
            && let Some(room) = room.get_mut(gpu.gpu.kind.index())
        {
            *room += 1000;
        }
    }
    flow(&classes, &room)
}

/// Thousandths that are free, or would be if idle instances were destroyed.
fn free_milli(gpu: &GpuState) -> u64 {
    match &gpu.held {
        Tenancy::Sliced(instances) if instances.iter().all(|one| one.holder.is_none()) => 1000,
        _ => u64::from(gpu.milli_free()),
    }
}

fn classes(world: &World, jobs: &[JobId]) -> Vec<Class> {
    let mut found: BTreeMap<(u64, u64, u64, u64), Class> = BTreeMap::new();
    for job in jobs.iter().filter_map(|id| world.job(*id)) {
        let ask = &job.job.worker;
        let milli = ask.gpu.milli();
        if milli == 0 {
            continue;
        }
        let kinds = match ask.gpu {
            GpuAsk::Whole { kinds, need, .. } => fit::kinds_with(world, kinds, need),
            other => other.kinds(),
        };
        let workers = u64::from(job.job.gang.preferred.max(job.job.gang.least).max(1));
        let key = (kinds.0, ask.cpu_milli, ask.memory_mib, milli);
        let class = found.entry(key).or_insert(Class {
            kinds,
            cpu: ask.cpu_milli,
            memory: ask.memory_mib,
            milli,
            asked: 0,
        });
        class.asked = class.asked.saturating_add(milli * workers);
    }
    found.into_values().collect()
}

/// Thousandths of GPUs of a kind that so much processor time and memory bear at most: the least needy
/// first, in any pieces.
fn by_host(classes: &[Class], kind: KindId, cpu: u64, memory: u64) -> u64 {
    let most = |needs: fn(&Class) -> u64, free: u64| {
        let mut right: Vec<&Class> = classes.iter().filter(|one| one.kinds.has(kind)).collect();
        // a.needs / a.milli < b.needs / b.milli, without division.
        right.sort_by_key(|one| (u128::from(needs(one)) << 32) / u128::from(one.milli));
        let (mut left, mut sum) = (free, 0_u64);
        for class in right {
            let whole = u128::from(class.asked) * u128::from(needs(class));
            let whole = whole.div_ceil(u128::from(class.milli));
            if whole <= u128::from(left) {
                left -= whole as u64;
                sum = sum.saturating_add(class.asked);
                continue;
            }
            // Rounded up: a bound must not be too small.
            let part = u128::from(left) * u128::from(class.milli);
            sum = sum.saturating_add(part.div_ceil(u128::from(needs(class).max(1))) as u64);
            break;
        }
        sum
    };
    most(|one| one.cpu, cpu).min(most(|one| one.memory, memory))
}

/// The greatest flow from classes to kinds that they accept.
fn flow(classes: &[Class], room: &[u64]) -> u64 {
    let mut asked: Vec<u64> = classes.iter().map(|one| one.asked).collect();
    let mut room = room.to_vec();
    // What flows from each class to each kind.
    let mut given: Vec<Vec<u64>> = vec![vec![0; room.len()]; classes.len()];
    let mut sum = 0_u64;
    while let Some(path) = path(classes, &asked, &room, &given) {
        let (Some(first), Some(last)) = (path.first(), path.last()) else {
            break;
        };
        let mut through = asked.get(first.0).copied().unwrap_or(0);
        through = through.min(room.get(last.1).copied().unwrap_or(0));
        for pair in path.windows(2) {
            if let [(_, kind), (next, _)] = pair {
                let back = given.get(*next).and_then(|row| row.get(*kind));
                through = through.min(back.copied().unwrap_or(0));
            }
        }
        if through == 0 {
            break;
        }
        for (at, (class, kind)) in path.iter().enumerate() {
            if let Some(cell) = given.get_mut(*class).and_then(|row| row.get_mut(*kind)) {
                *cell += through;
            }
            let before = at.checked_sub(1).and_then(|at| path.get(at));
            if let Some((_, kind)) = before
                && let Some(cell) = given.get_mut(*class).and_then(|row| row.get_mut(*kind))
            {
                *cell -= through;
            }
        }
        if let Some(cell) = asked.get_mut(first.0) {
            *cell -= through;
        }
        if let Some(cell) = room.get_mut(last.1) {
            *cell -= through;
        }
        sum += through;
    }
    sum
}

/// A shortest way by which more can flow: a class that still asks gives to a kind; a kind that is full
/// takes back from a class, which gives to another kind; until one has room.
fn path(
    classes: &[Class],
    asked: &[u64],
    room: &[u64],
    given: &[Vec<u64>],
) -> Option<Vec<(usize, usize)>> {
    // For each kind the class that reaches it first, for each class the kind that takes back from it.
    let mut by_class: Vec<Option<usize>> = vec![None; room.len()];
    let mut by_kind: Vec<Reached> = vec![Reached::Not; classes.len()];
    let mut queue: VecDeque<usize> = VecDeque::new();
    for (class, left) in asked.iter().enumerate() {
        if *left > 0 {
            if let Some(cell) = by_kind.get_mut(class) {
                *cell = Reached::First;
            }
            queue.push_back(class);
        }
    }
    while let Some(class) = queue.pop_front() {
        let kinds = classes.get(class)?.kinds;
        for kind in 0..room.len() {
            let reached = by_class.get_mut(kind)?;
            if reached.is_some() || !kinds.has(KindId(kind as u32)) {
                continue;
            }
            *reached = Some(class);
            if room.get(kind).is_some_and(|left| *left > 0) {
                return Some(back(&by_class, &by_kind, kind));
            }
            for (other, row) in given.iter().enumerate() {
                let takes = row.get(kind).is_some_and(|flow| *flow > 0);
                let cell = by_kind.get_mut(other)?;
                if takes && *cell == Reached::Not {
                    *cell = Reached::From(kind);
                    queue.push_back(other);
                }
            }
        }
    }
    None
}

/// How a class was reached on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Not,
    First,
    From(usize),
}

/// The way to a kind, first step first.
fn back(by_class: &[Option<usize>], by_kind: &[Reached], kind: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut next = Some(kind);
    while let Some(kind) = next {
        let Some(class) = by_class.get(kind).copied().flatten() else {
            break;
        };
        found.push((class, kind));
        next = by_kind.get(class).and_then(|reached| match reached {
            Reached::From(kind) => Some(*kind),
            Reached::Not | Reached::First => None,
        });
    }
    found.reverse();
    found
}
