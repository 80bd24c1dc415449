//! Nothing of a GPU is lost: for each hour, what is granted, lent, idle and the system's is the whole.
//!
//! There are two equations, one for compute and one for memory, in whole numbers. They differ: a MIG
//! instance of one seventh of the compute may hold a quarter of the memory.

mod cost;
mod sweep;

pub use cost::{CostPart, Holder, costs, divide_cost};
pub use sweep::balances;

use crate::{
    period::{Interval, moment},
    usage::{Share, Spans},
};
use gpuwise_units::Nanoseconds;

/// A GPU as it is to be accounted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its lasting id.
    pub id: String,
    /// When it was there to be granted: what is out of order, or not yet bought, is nobody's idle time.
    pub present: Spans,
    /// What the driver and the like keep of it.
    pub system: Part,
    /// MIG instances that stood while nobody held them.
    pub standing: Vec<Standing>,
    /// When it was kept for one tenant and lent to another: what is granted then is lent.
    pub lent: Spans,
}

/// A part of a device's compute and of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub compute: Share,
    pub memory: Share,
}

impl Part {
    /// Nothing of either.
    pub const NOTHING: Self = Self {
        compute: Share { part: 0, of: 1 },
        memory: Share { part: 0, of: 1 },
    };
}

/// An instance that stood empty over an interval: what it takes is held by the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub interval: Interval,
    pub part: Part,
}

gpuwise_units::named! {
    /// One of a GPU's two resources.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Resource:
        name
    {
        Compute = "compute",
        Memory = "memory",
    }
}

/// What became of one resource in an hour, in units of [`Balance::unit`] times nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// While the device was there.
    pub whole: u128,
    /// Of what is nobody else's.
    pub granted: u128,
    /// Of what was kept for another tenant.
    pub lent: u128,
    pub system: u128,
    /// Idle together with as much of the other resource: it could be granted.
    pub free: u128,
    /// Idle without any of the other resource to go with it.
    pub stranded: u128,
    /// Idle within instances that nobody held.
    pub held: u128,
}

impl Parts {
    /// Idle for whatever cause.
    pub const fn idle(&self) -> u128 {
        self.free + self.stranded + self.held
    }

    /// Whether nothing is lost and nothing comes from nowhere.
    pub const fn holds(&self) -> bool {
        self.granted + self.lent + self.system + self.idle() == self.whole
    }
}

/// A device's hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub device: String,
    /// An hour of the clock, or what of it was asked for.
    pub hour: Interval,
    /// So many units are the whole device: thousandths, slices and MiB are whole numbers of them.
    pub unit: u64,
    pub compute: Parts,
    pub memory: Parts,
    /// What each series was granted, by its place in the meter: compute, memory.
    pub granted: Vec<(usize, [u128; 2])>,
}

impl Balance {
    pub const fn of(&self, resource: Resource) -> &Parts {
        match resource {
            Resource::Compute => &self.compute,
            Resource::Memory => &self.memory,
        }
    }
}

/// More was granted than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{device} is granted beyond its whole {} from {} on, by {over} of {unit}: two records cannot both be right",
    .resource.name(), moment(*.at)
)]
pub struct Overcommitted {
    pub device: String,
    pub resource: Resource,
    pub at: Nanoseconds,
    pub over: u128,
    pub unit: u64,
}
