//! Fleets, what is asked of them, and who runs where: inventory, jobs, plans, events, reports.
//!
//! Names are for people; inside, everything is known by a small number. Numbers are given by the
//! reader of a fleet in the order of its file and never change their meaning.

mod ask;
mod cutting;
mod event;
mod inventory;
mod mig;
mod moment;
mod plan;
mod queue;
mod replay;
mod report;
mod serving;
mod sharing;
mod uid;

pub use ask::{
    DurationEstimate, Gang, GpuAsk, Isolation, Job, Need, Preemption, SliceAsk, Spread,
    TopologyWish, WorkerAsk,
};
pub use cutting::{CutError, CutGpu, CutInstance};
pub use event::{Attempt, Ended, Event, Failure, FailureCause, Seen, TimestampedEvent};
pub use inventory::{
    Domain, FabricPool, Fleet, FleetGpu, GpuKind, Health, Home, Level, Node, Reservation,
};
pub use mig::{GeometryFault, MigBoard, MigGeometry, MigShape, Occupancy, ProfileSet};
pub use moment::{Holding, Moment};
pub use plan::{Action, Assignment, Cause, GpuShare, Part, Plan};
pub use queue::{
    Backfill, Order, Preference, Queue, QueueProblem, Quota, Scheduling, Sharing, Weigh,
    queue_problems,
};
pub use replay::ReplayRow;
pub use report::{
    Decision, Figures, Fix, Outcome, QuotaLimit, QuotaShort, Remedy, Report, Shortage, Weighed,
};
pub use serving::{ServingDay, ServingHolder, ServingRequest};
pub use sharing::{IsolationLevel, SharingMeans, VgpuProfile, mps_milli, smallest_vgpu};
pub use uid::{Uid, resource_block_of, resource_block_uid};

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Its place in lists.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number!(NodeId);
number!(
    /// A GPU of a fleet, wherever it is attached.
    GpuId
);
number!(
    /// A kind of GPU in a fleet.
    KindId
);
number!(
    /// A domain of the topology: a rack, a block, a zone.
    DomainId
);
number!(
    /// An island of GPUs that reach each other over NVLink or its like.
    IslandId
);
number!(PoolId);
number!(QueueId);
number!(JobId);

/// Kinds of GPU as a set; a fleet has at most 64.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Kinds(pub u64);

impl Kinds {
    pub const ANY: Self = Self(u64::MAX);
    pub const NONE: Self = Self(0);
    /// Kinds that a fleet has at most.
    pub const MOST: usize = 64;

    pub const fn one(kind: KindId) -> Self {
        Self(1 << (kind.0 & 63))
    }

    /// Whether it holds this kind.
    pub const fn has(self, kind: KindId) -> bool {
        kind.0 < 64 && self.0 & (1 << kind.0) != 0
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn with(self, kind: KindId) -> Self {
        Self(self.0 | Self::one(kind).0)
    }

    /// Its kinds, in order.
    pub fn iter(self) -> impl Iterator<Item = KindId> {
        (0..64).map(KindId).filter(move |kind| self.has(*kind))
    }
}
