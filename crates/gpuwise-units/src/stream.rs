use crate::math::{FNV1A, fnv1a};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// A random stream of its own for one purpose and one entity.
///
/// A draw added in one place shifts no other: streams are told apart by their
/// purpose and entity, not by the order of draws.
///
/// ```
/// use gpuwise_units::RandomStream;
/// let mut a = RandomStream::new(7, "folds", 0);
/// let mut b = RandomStream::new(7, "folds", 0);
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert_ne!(a.next_u64(), RandomStream::new(7, "folds", 1).next_u64());
/// ```
#[derive(Debug, Clone)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The stream of `entity` for `purpose` under `seed`.
    pub fn new(seed: u64, purpose: &str, entity: u64) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(FNV1A, purpose.as_bytes()).to_le_bytes());
        key[16..24].copy_from_slice(&entity.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A real in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number in 0..`bound`, unbiased.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member to draw");
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.next_u64();
            if draw < limit {
                return draw % bound;
            }
        }
    }
}
