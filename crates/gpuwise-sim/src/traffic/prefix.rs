//! What prompts have in common, where only its share is known.

use super::{Lengths, TrafficError, curve::log_mean, mixed};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::RandomStream;

/// Shared beginnings are whole blocks of this many tokens where they are longer than two: what is less
/// than a block of the cache is not found again.
const BLOCK: f64 = 16.0;

/// Groups of prompts of one length.
const GROUPS: u32 = 8;

/// Prompts that begin alike.
///
/// A share `h` of prompt tokens is realised as follows. Prompts of about equal length (within a tenth;
/// of a fiftieth where `h` is above 0.9) form a band, a band has `groups` groups, and all prompts of a
/// group begin with the same `h` times the band's mean length. Every prompt joins a group of its band at
/// random. The first of a group finds nothing: the share is that of a cache which is warm after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixPool {
    /// Share of prompt tokens that are shared (0 to 1).
    pub share: f64,
    pub groups: u32,
}

impl PrefixPool {
    /// A pool for a share of tokens: eight groups where all prompts are of one length, else one for
    /// each band, as the bands make many.
    ///
    /// # Errors
    /// When the share is not from 0 to 1.
    pub fn new(share: f64, lengths: &Lengths) -> Result<Self, TrafficError> {
        TrafficError::range(
            "the share of shared tokens",
            share,
            0.0..=1.0,
            "a share from 0 to 1",
        )?;
        let groups = if lengths.fixed_input().is_some() {
            GROUPS
        } else {
            1
        };
        Ok(Self { share, groups })
    }
}

/// A pool as prompts are drawn from it.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pool: PrefixPool,
    /// The one length of all prompts.
    fixed: Option<u32>,
    /// Logarithm of a band's width.
    width: f64,
    seed: u64,
    groups: RandomStream,
}

impl Shared {
    pub(super) fn new(pool: PrefixPool, lengths: &Lengths, seed: u64, entity: u64) -> Self {
        Self {
            pool,
            fixed: lengths.fixed_input(),
            width: libm::log(if pool.share > 0.9 { 1.02 } else { 1.1 }),
            seed: mixed(seed ^ mixed(entity)),
            groups: RandomStream::new(seed, "traffic prefixes", entity),
        }
    }

    /// Gives a request its shared beginning.
    pub(super) fn share(&mut self, request: &mut Request) {
        if self.pool.share <= 0.0 || request.input == 0 {
            return;
        }
        let group = self.groups.below(u64::from(self.pool.groups.max(1)));
        let (band, length, least) = match self.fixed {
            Some(fixed) => (0, f64::from(fixed), f64::from(fixed)),
            None => self.band(f64::from(request.input)),
        };
        let tokens = length * self.pool.share;
        let tokens = if tokens >= 2.0 * BLOCK {
            libm::round(tokens / BLOCK) * BLOCK
        } else {
            libm::round(tokens)
        };
        let tokens = (tokens.min(least) as u32).min(request.input);
        if tokens > 0 {
            let content = mixed(self.seed ^ mixed(band << 32 | group));
            request.prefix = Some(Box::new([Segment { content, tokens }]));
        }
    }

    /// The band of a length: its number, its mean length and its least.
    fn band(&self, input: f64) -> (u64, f64, f64) {
        let number = libm::floor(libm::log(input) / self.width + 1e-9);
        let low = libm::exp(number * self.width);
        let high = libm::exp((number + 1.0) * self.width);
        (number as u64, log_mean(low, high), libm::ceil(low - 1e-6))
    }
}
