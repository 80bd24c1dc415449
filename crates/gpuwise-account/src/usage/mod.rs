//! What leases were granted and what they used, by intervals.

mod counted;
mod energy;
mod grid;
mod ids;
mod limits;
mod meter;
mod series;
mod spans;

pub use energy::{EnergyRule, Sharer, divide_energy};
pub use grid::Grid;
pub use limits::{Aside, Limits, Outcome, Reason};
pub use meter::Meter;
pub use series::{Amounts, Cell, Series};
pub use spans::Spans;

use gpuwise_domain::{offer::Terms, placement::Isolation};
use gpuwise_units::Nanoseconds;

/// What a lease held and used of one device from `start` on, up to and without `end`.
///
/// Principal, lease, source and id name the record: one that comes twice counts once. Records of one lease, device
/// and part may overlap: granted time is their union, used amounts are summed. So one source may say what is granted
/// and another what is used. Equal parts of one device that a lease holds at the same time are told apart by
/// [`UsageRecord::part`], and each counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UsageRecord {
    /// Whose record it is.
    pub principal: Principal,
    /// What says so, such as an executor.
    pub source: String,
    /// What the source calls this record; unique within principal, lease and source.
    pub id: String,
    /// The source's own count of its records.
    pub sequence: u64,
    pub tenant: String,
    pub lease: String,
    /// The lasting id of the device; empty where nothing of a device is granted.
    pub device: String,
    /// Which of the equal parts of the device that the lease holds, from 0 on.
    pub part: u32,
    /// Catalogue name of the GPU, such as `H100-SXM-80GB`; of tokens alone, the model.
    pub kind: String,
    pub granted: Granted,
    pub isolation: Sharing,
    pub class: Terms,
    pub start: Nanoseconds,
    pub end: Nanoseconds,
    pub used: Used,
}

/// Whose a record is. Ids of one never stand for those of another.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub enum Principal {
    /// The broker's own: what it granted.
    #[default]
    Broker,
    /// The broker's own: what it measured, and what logs have of which no principal was kept.
    Collector,
    /// A client's, by its name.
    Client(String),
}

/// Which part of a device a lease has.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Granted {
    /// No part of a device: tokens that a gateway counted.
    Nothing,
    Whole,
    /// Thousandths of its time or its multiprocessors, and so much of its memory.
    Fraction {
        compute_milli: u32,
        memory_mib: u32,
        /// Memory of the device.
        of_mib: u32,
    },
    /// A MIG instance.
    Slice {
        /// Such as `1g.10gb`.
        profile: String,
        compute: u8,
        /// Compute slices of the device, such as 7.
        of_compute: u8,
        memory: u8,
        /// Memory slices of the device, such as 8.
        of_memory: u8,
    },
}

/// A share of a device: so many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Share {
    pub part: u32,
    pub of: u32,
}

impl Granted {
    /// Its share of the device's compute.
    pub fn compute(&self) -> Share {
        match self {
            Self::Nothing => Share { part: 0, of: 1 },
            Self::Whole => Share { part: 1, of: 1 },
            Self::Fraction { compute_milli, .. } => Share {
                part: *compute_milli,
                of: 1000,
            },
            Self::Slice {
                compute,
                of_compute,
                ..
            } => Share {
                part: u32::from(*compute),
                of: u32::from(*of_compute),
            },
        }
    }

    /// Its share of the device's memory.
    pub fn memory(&self) -> Share {
        match self {
            Self::Nothing | Self::Whole => self.compute(),
            Self::Fraction {
                memory_mib, of_mib, ..
            } => Share {
                part: *memory_mib,
                of: *of_mib,
            },
            Self::Slice {
                memory, of_memory, ..
            } => Share {
                part: u32::from(*memory),
                of: u32::from(*of_memory),
            },
        }
    }

    /// Whether each part is of something and not more than it.
    pub fn is_possible(&self) -> bool {
        let fits = |share: Share| share.of > 0 && share.part <= share.of;
        fits(self.compute()) && fits(self.memory())
    }
}

impl Share {
    /// The larger of two.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        let mine = u64::from(self.part) * u64::from(other.of);
        let theirs = u64::from(other.part) * u64::from(self.of);
        if theirs > mine { other } else { self }
    }
}

gpuwise_units::named! {
    /// How a part is kept apart from the others of its device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Sharing:
        name
    {
        /// There are no others.
        Exclusive = "exclusive",
        Mig = "mig",
        Vgpu = "vgpu",
        Mps = "mps",
        TimeSlice = "time-slice",
    }
}

impl From<Isolation> for Sharing {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::TimeSlice | Isolation::Pair { .. } => Self::TimeSlice,
            Isolation::Mps => Self::Mps,
            Isolation::Vgpu { .. } => Self::Vgpu,
        }
    }
}

/// What was used in the interval; `None`: nobody measured it, which is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Used {
    /// Time in which the device's multiprocessors worked, over all of them: a second at half of them
    /// is 500,000,000.
    pub sm_ns: Option<u64>,
    /// Memory in use, in bytes times seconds.
    pub byte_seconds: Option<u64>,
    /// Energy in thousandths of a joule.
    pub energy_mj: Option<u64>,
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    /// Time in which what was to run on it was still starting.
    pub start_ns: Option<u64>,
}

impl Used {
    pub(crate) const fn all(self) -> [Option<u64>; Quantity::ALL.len()] {
        [
            self.sm_ns,
            self.byte_seconds,
            self.energy_mj,
            self.tokens_in,
            self.tokens_out,
            self.start_ns,
        ]
    }
}

gpuwise_units::named! {
    /// A used amount, in the order of [`Used`]'s fields.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Quantity:
        name
    {
        SmTime = "sm_ns",
        MemoryTime = "byte_seconds",
        Energy = "energy_mj",
        TokensIn = "tokens_in",
        TokensOut = "tokens_out",
        StartTime = "start_ns",
    }
}
