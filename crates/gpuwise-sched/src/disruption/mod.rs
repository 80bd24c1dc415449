//! Decisions that disrupt: who stops, moves or shrinks so that another finds room, and what is tidied
//! up when nobody waits.
//!
//! One search for all: a set of disruptions is looked for that makes room at the least cost, in
//! GPU-time that is lost; cheaper sets are tried before dearer ones. No victim is superfluous, and none
//! could come back by disrupting the one that it made room for: victims have lower priority, or equal
//! priority where a holder who was idle takes back what was lent.

mod cost;
mod defragment;
mod grow;
mod prepare;
mod scratch;
mod search;
mod sets;
mod tidy;
mod victims;

pub(crate) use cost::restart_of;
pub use cost::{Disruption, DisruptionKind, lost_work};
pub use defragment::unusable;
pub(crate) use prepare::could_prepare;
pub(crate) use tidy::migration_loss;
pub use tidy::{Budget, Gain, Tidy, tidy};
pub(crate) use victims::victims_within;
pub use victims::{Victims, select_victims};

use gpuwise_units::Nanoseconds;

/// Which disruptions are allowed. All off costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each can be had without the others"
)]
pub struct Disruptions {
    /// Jobs of lower priority that may be stopped are stopped for others.
    pub preempt: bool,
    /// Jobs that may be stopped are moved to make room.
    pub migrate: bool,
    /// Elastic jobs shrink for others, never below what they need at least.
    pub elastic: bool,
    /// Pooled GPUs are attached to nodes that lack GPUs.
    pub attach: bool,
    /// GPUs that are cut and idle are joined for those who need whole ones.
    pub repartition: bool,
    /// Idle holders lose their GPUs while others wait; `None`: never.
    pub reclaim: Option<Idle>,
    /// Jobs that may be stopped run on GPUs that are reserved for another queue, until it wants them.
    pub lend: bool,
    /// Jobs that are disrupted for one at most.
    pub most: u32,
    /// By how many thousandths each unit of a victim's priority makes it dearer.
    pub priority_milli: u32,
    /// What moving others may cost at most, in thousandths of the GPU-time that the job is expected to
    /// use; not looked at where its duration is not known.
    pub worth_milli: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// At most so busy, in thousandths of the time.
    pub busy_milli: u32,
    pub after: Nanoseconds,
    /// What it takes to load again what was on the GPUs.
    pub reload: Nanoseconds,
}

impl Disruptions {
    /// Nobody is disrupted.
    pub const NONE: Self = Self {
        preempt: false,
        migrate: false,
        elastic: false,
        attach: false,
        repartition: false,
        reclaim: None,
        lend: false,
        most: 16,
        priority_milli: 10,
        worth_milli: 100,
    };

    /// Everything that needs no threshold.
    pub const USUAL: Self = Self {
        preempt: true,
        migrate: true,
        elastic: true,
        attach: true,
        repartition: true,
        ..Self::NONE
    };

    /// Whether anything is allowed that makes room.
    pub const fn any(&self) -> bool {
        self.of_jobs() || self.attach || self.repartition
    }

    /// Whether any job may be disrupted.
    pub const fn of_jobs(&self) -> bool {
        self.preempt || self.migrate || self.elastic || self.lend || self.reclaim.is_some()
    }
}

impl Default for Disruptions {
    fn default() -> Self {
        Self::NONE
    }
}
