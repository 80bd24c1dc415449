//! A hash of a stream of plans.

use gpuwise_domain::placement::Plan;
use std::hash::{Hash as _, Hasher};

/// FNV-1a over every plan in order: two replays that decided alike have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlansHash(u64);

impl Default for PlansHash {
    fn default() -> Self {
        Self(gpuwise_units::math::FNV1A)
    }
}

impl PlansHash {
    pub fn add(&mut self, plan: &Plan) {
        plan.hash(self);
    }

    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Hasher for PlansHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    // Whole words at a time, so that hashing costs little beside deciding.
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}
