//! Rows of imagined arrivals, laid out so that the next one that fits is found at once.
//!
//! Of each row there is a set of its arrivals for every amount of processor time, of memory and of GPUs
//! at which one more of them fits. What fits a room is in all of its sets: the first bit after the last
//! arrival that was taken is the next, if what was taken has left it processor time and memory. So a row
//! costs about as many steps as the room takes arrivals, not as it has.

use super::{
    builds::BUILDS,
    room::{GPUS, Room, WHOLE},
};

/// Rows of imagined arrivals over which a node's value is the mean.
pub(super) const ROWS: usize = 16;
/// Imagined arrivals of a row: as many as a set has bits, at most.
pub(super) const LENGTH: usize = 120;
/// Weights are fractions of this.
pub(super) const ONE: u64 = 1 << 16;
/// What is left of the weight after an arrival that does not fit: 0.985. Fitted on the seeds 42 to 44 of
/// four variants of openb: at 1 holes are kept for arrivals that come too late, below 0.95 too little is
/// expected of rare ones; between 0.97 and 0.99 allocation differs by less than 0.1 points.
const PATIENCE: u64 = 64_553;
/// The weight of an arrival before which so many did not fit.
const WEIGHTS: [u64; LENGTH + 1] = weights();

/// Arrivals of a row, by their place in it.
type Set = u128;

/// An ask, as rows have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) cpu: u64,
    pub(super) memory: u64,
    /// Builds whose idle nodes hold it.
    pub(super) builds: u64,
    pub(super) count: u32,
    pub(super) milli: u16,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// Row by row, [`LENGTH`] each.
    steps: Vec<Step>,
    cpu: Levels,
    memory: Levels,
    /// By the freest GPU: parts of one.
    parts: Levels,
    /// By thousandths that are free on it, how many amounts of parts are reached.
    part_at: Vec<u16>,
    /// By idle GPUs, up to [`GPUS`]: whole ones.
    wholes: Vec<[Set; ROWS]>,
    /// By build.
    builds: Vec<[Set; ROWS]>,
}

/// Sets of arrivals by how much of something is free.
#[derive(Debug, Clone, Default)]
struct Levels {
    /// Amounts at which more fits, rising.
    amounts: Vec<u64>,
    /// What fits below the first amount, then from each on.
    sets: Vec<[Set; ROWS]>,
}

/// What is left of a room.
#[derive(Debug, Clone, Copy)]
struct Left {
    cpu: u64,
    memory: u64,
    milli: u32,
    /// Of each GPU, those first of which anything is free.
    free: [u16; GPUS],
    used: usize,
    /// Free on the freest GPU.
    freest: u16,
    idle: u32,
}

const fn weights() -> [u64; LENGTH + 1] {
    let mut weights = [ONE; LENGTH + 1];
    let mut misses = 1;
    while misses <= LENGTH {
        weights[misses] = weights[misses - 1] * PATIENCE / ONE;
        misses += 1;
    }
    weights
}

impl Levels {
    /// From what each arrival needs; `None`: it is not of those that are told apart here.
    fn new(steps: &[Step], needs: impl Fn(&Step) -> Option<u64>) -> Self {
        let mut amounts: Vec<u64> = steps.iter().filter_map(&needs).collect();
        amounts.sort_unstable();
        amounts.dedup();
        let mut sets = vec![[0; ROWS]; amounts.len() + 1];
        for (step, at) in steps.iter().zip(0_usize..) {
            let Some(need) = needs(step) else { continue };
            let from = amounts.partition_point(|amount| *amount <= need);
            let rows = sets.get_mut(from);
            if let Some(set) = rows.and_then(|rows| rows.get_mut(at / LENGTH)) {
                *set |= 1 << (at % LENGTH);
            }
        }
        for from in 1..sets.len() {
            let below = sets.get(from - 1).copied().unwrap_or([0; ROWS]);
            for (set, less) in sets.iter_mut().skip(from).take(1).flatten().zip(below) {
                *set |= less;
            }
        }
        Self { amounts, sets }
    }

    /// How many amounts are reached.
    fn reached(&self, free: u64) -> usize {
        self.amounts.partition_point(|amount| *amount <= free)
    }

    /// What fits where so much is free.
    fn at(&self, free: u64) -> [Set; ROWS] {
        let sets = self.sets.get(self.reached(free));
        sets.copied().unwrap_or([0; ROWS])
    }
}

impl Rows {
    /// Of rows of equal length.
    pub(super) fn new(steps: Vec<Step>) -> Self {
        let part = |step: &Step| (step.milli < WHOLE).then_some(u64::from(step.milli));
        let whole = |step: &Step| (step.milli >= WHOLE).then_some(u64::from(step.count));
        let mut builds = vec![[0; ROWS]; BUILDS];
        for (step, at) in steps.iter().zip(0_usize..) {
            for (sets, build) in builds.iter_mut().zip(0_u32..) {
                if step.builds >> build & 1 == 1
                    && let Some(set) = sets.get_mut(at / LENGTH)
                {
                    *set |= 1 << (at % LENGTH);
                }
            }
        }
        let parts = Levels::new(&steps, part);
        let wholes = Levels::new(&steps, whole);
        Self {
            cpu: Levels::new(&steps, |step| Some(step.cpu)),
            memory: Levels::new(&steps, |step| Some(step.memory)),
            part_at: (0..=u64::from(WHOLE))
                .map(|free| parts.reached(free) as u16)
                .collect(),
            parts,
            wholes: (0..=GPUS as u64).map(|idle| wholes.at(idle)).collect(),
            builds,
            steps,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Thousandths of GPUs that rows of arrivals take of a room, each times its weight, over all rows.
    ///
    /// Every arrival that fits is taken, fractions on the GPU with the least room. Each that does not fit
    /// lowers the weight of all that follow: what has to wait long counts less. `least` is the smallest ask:
    /// where less is free nothing more fits.
    pub(super) fn fill(&self, room: &Room, least: u32) -> u64 {
        let Some(builds) = self.builds.get(room.build_number()) else {
            return 0;
        };
        let mut fits = *builds;
        let (cpu, memory) = (self.cpu.at(room.cpu), self.memory.at(room.memory));
        for ((fits, cpu), memory) in fits.iter_mut().zip(cpu).zip(memory) {
            *fits &= cpu & memory;
        }
        let left = Left {
            cpu: room.cpu,
            memory: room.memory,
            milli: room.milli(),
            free: room.free,
            used: room.free.iter().take_while(|free| **free > 0).count(),
            freest: room.free[0],
            idle: room.whole(),
        };
        let mut sum = 0;
        for ((steps, fits), row) in self.steps.chunks_exact(LENGTH).zip(fits).zip(0..) {
            sum += self.fill_row((row, steps), fits, left, least);
        }
        sum
    }

    /// Of one row; `all` of it fit a room of which nothing is taken, but for GPUs.
    #[inline]
    fn fill_row(
        &self,
        (row, steps): (usize, &[Step]),
        all: Set,
        mut left: Left,
        least: u32,
    ) -> u64 {
        let (mut from, mut taken, mut count) = (Set::MAX, 0, 0_usize);
        'takes: loop {
            let part = self.part_at.get(usize::from(left.freest));
            let parts = self
                .parts
                .sets
                .get(part.map_or(0, |part| usize::from(*part)));
            let wholes = self.wholes.get(left.idle as usize);
            let of = |sets: Option<&[Set; ROWS]>| sets.and_then(|sets| sets.get(row)).copied();
            let mut fits = all & from & (of(parts).unwrap_or(0) | of(wholes).unwrap_or(0));
            while fits != 0 {
                let next = fits.trailing_zeros() as usize;
                let Some(step) = steps.get(next) else { break };
                // Without its lowest bit.
                fits &= fits - 1;
                if step.cpu > left.cpu || step.memory > left.memory {
                    continue;
                }
                let milli = step.count * u32::from(step.milli);
                // All before it that were not taken did not fit.
                let weight = WEIGHTS.get(next - count).copied().unwrap_or(0);
                taken += weight * u64::from(milli);
                left.milli -= milli;
                if left.milli < least {
                    return taken;
                }
                count += 1;
                left.take(step);
                // What comes after it.
                from = Set::MAX << next << 1;
                continue 'takes;
            }
            return taken;
        }
    }
}

impl Left {
    /// Takes an ask's share of the host and its GPUs, which are free.
    #[inline]
    fn take(&mut self, step: &Step) {
        self.cpu -= step.cpu;
        self.memory -= step.memory;
        let free = self.free.get_mut(..self.used).unwrap_or_default();
        if step.milli < WHOLE {
            let (mut best, mut room) = (0, u16::MAX);
            for (one, at) in free.iter().zip(0_usize..) {
                if *one >= step.milli && *one < room {
                    (best, room) = (at, *one);
                }
            }
            if let Some(one) = free.get_mut(best) {
                *one -= step.milli;
            }
            self.idle -= u32::from(room == WHOLE);
        } else {
            let idle = free.iter_mut().filter(|free| **free == WHOLE);
            for one in idle.take(step.count as usize) {
                *one = 0;
            }
            self.idle -= step.count;
        }
        self.freest = if self.idle > 0 {
            WHOLE
        } else {
            free.iter().copied().max().unwrap_or(0)
        };
    }
}
