//! What is free on a node, as the policy values it.

use crate::world::{NodeState, Tenancy, World};
use core::hash::{Hash, Hasher};

/// GPUs of a node that are told apart; of larger nodes the value is that of the freest so many.
pub(super) const GPUS: usize = 16;

/// Thousandths of a GPU.
pub(super) const WHOLE: u16 = 1000;

/// Free processor time, memory and thousandths of each GPU of a node.
///
/// Which GPU has how much is left out: nodes that differ in that alone are worth the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Room {
    /// Processor time in thousandths of a core.
    pub(super) cpu: u64,
    pub(super) memory: u64,
    /// How the node is built, as a set of one.
    pub(super) build: u64,
    /// Thousandths free, the most first.
    pub(super) free: [u16; GPUS],
}

impl Hash for Room {
    fn hash<H: Hasher>(&self, state: &mut H) {
        [self.cpu, self.memory, self.build].hash(state);
        // Four to a word: they are hashed often.
        for four in self.free.chunks(4) {
            let word = |word, free: &u16| word << 16 | u64::from(*free);
            state.write_u64(four.iter().fold(0, word));
        }
    }
}

impl Room {
    pub(super) fn of(world: &World, node: &NodeState, build: u64) -> Self {
        let mut free: Vec<u16> = Vec::with_capacity(node.gpus.len());
        for gpu in node.gpus.iter().filter_map(|id| world.gpu(*id)) {
            let usable = gpu.takes_work() && !matches!(gpu.held, Tenancy::Sliced(_));
            free.push(if usable {
                gpu.milli_free().min(u32::from(WHOLE)) as u16
            } else {
                0
            });
        }
        free.sort_unstable_by(|a, b| b.cmp(a));
        let mut room = Self {
            cpu: node.cpu_free,
            memory: node.memory_free,
            build,
            ..Self::default()
        };
        for (to, from) in room.free.iter_mut().zip(free) {
            *to = from;
        }
        room
    }

    /// The number of its node's build.
    pub(super) const fn build_number(&self) -> usize {
        self.build.trailing_zeros() as usize
    }

    /// Thousandths of GPUs that are free.
    pub(super) fn milli(&self) -> u32 {
        self.free.iter().map(|free| u32::from(*free)).sum()
    }

    /// GPUs of which nothing is held.
    pub(super) fn whole(&self) -> u32 {
        self.free.iter().take_while(|free| **free == WHOLE).count() as u32
    }

    /// After a worker has taken processor time and memory.
    pub(super) const fn without(mut self, cpu: u64, memory: u64) -> Self {
        self.cpu = self.cpu.saturating_sub(cpu);
        self.memory = self.memory.saturating_sub(memory);
        self
    }

    /// After so many whole GPUs were taken.
    pub(super) fn without_whole(mut self, count: u32) -> Self {
        let taken = count.min(self.whole()) as usize;
        self.free.rotate_left(taken);
        for free in self.free.iter_mut().rev().take(taken) {
            *free = 0;
        }
        self
    }

    /// After a part of a GPU that had so much free was taken.
    pub(super) fn without_part(mut self, free: u16, milli: u16) -> Self {
        if let Some(one) = self.free.iter_mut().rev().find(|one| **one == free) {
            *one = one.saturating_sub(milli);
            self.free.sort_unstable_by(|a, b| b.cmp(a));
        }
        self
    }
}
