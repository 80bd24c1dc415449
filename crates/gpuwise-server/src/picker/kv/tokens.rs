//! Beginnings of token sequences, each by one number, whichever engine holds them in blocks of whichever size.

use gpuwise_units::math::scrambled;

/// Which cache tokens are in: the model's own, or an adapter's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Adapter(u64);

impl Adapter {
    /// The model itself.
    pub(super) const NONE: Self = Self(0);

    pub(super) fn named(name: &str) -> Self {
        Self(hash(name.as_bytes()))
    }
}

/// A beginning, all its tokens and the cache that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Beginning(u64);

impl Beginning {
    /// Of no tokens.
    pub(super) const fn empty(adapter: Adapter) -> Self {
        Self(scrambled(adapter.0 ^ 0x6b76_5f65_7665_6e74))
    }

    #[must_use]
    pub(super) fn then(self, tokens: &[u32]) -> Self {
        let fold = |sum: u64, token: &u32| scrambled(sum.rotate_left(23) ^ u64::from(*token));
        Self(tokens.iter().fold(self.0, fold))
    }
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    crate::picker::prompt::hash(bytes, bytes.len() as u64)
}
