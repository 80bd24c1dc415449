//! Rounds over GPUs of several kinds: jobs that may be stopped take turns, so that each gets its fair part
//! of the kinds on which it is fast.
//!
//! Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI
//! 2020 (Gavel). Two steps: shares of time for each job and kind, such that the job that gets least, beside
//! what it would get of an equal part of the fleet, gets the most that is possible ([`fair`], [`max_min`]);
//! and for each round who runs on which kind, so that what jobs have got follows their shares ([`next`]).
//!
//! Nothing is remembered between rounds but what the world knows: on which kinds a job has run, and when.

mod claims;
mod interior;
mod next;
pub(crate) mod pairs;
mod takers;

pub use claims::{Claim, Fair, fair};
pub use interior::{Rates, Solved, max_min, meets};
pub use next::{Ranked, next};
pub use pairs::{MeasuredPair, Pairs, Split};
pub(crate) use takers::{Round, partners, seats};

use gpuwise_units::Nanoseconds;

/// How jobs take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// How long a round is. Rounds begin at multiples of it.
    pub length: Nanoseconds,
}

/// What a job has got is counted over so many rounds.
pub const COUNTED: u64 = 16;

impl Rounds {
    /// When the round began that is under way.
    pub fn begin(&self, now: Nanoseconds) -> Nanoseconds {
        Nanoseconds(now.0 - now.0.checked_rem(self.length.0).unwrap_or(0))
    }

    /// When the next one begins.
    pub fn next(&self, now: Nanoseconds) -> Nanoseconds {
        Nanoseconds(self.begin(now).0.saturating_add(self.length.0.max(1)))
    }
}
