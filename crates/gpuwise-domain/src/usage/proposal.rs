//! What an audit says of a workload, and what it proposes.

use super::Holder;
use alloc::{string::String, vec::Vec};
use gpuwise_units::Money;

gpuwise_units::named! {
    /// What an audit says of a workload.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Verdict:
        /// Its name in JSON, CSV and databases.
        name,
        title
    {
        /// It holds GPUs and did nothing.
        Idle = "idle", "idle",
        /// It does nothing for long stretches of the day or week.
        PartTime = "part_time", "part time",
        /// A smaller GPU, a slice or fewer replicas suffice.
        OverProvisioned = "over_provisioned", "too large",
        /// What it holds fits what it does.
        RightSized = "right_sized", "right size",
        /// Its memory is full, or requests wait.
        UnderProvisioned = "under_provisioned", "too small",
        /// Its GPU waits for its CPUs.
        Starved = "starved", "CPU-starved",
        /// It was seen for too short a time.
        TooEarly = "too_early", "too early",
        /// What is needed to tell is not there.
        Unknown = "unknown", "unknown",
    }
}

impl Verdict {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
    }

    /// Which third of the fleet it belongs to: over-, right- or under-provisioned; none where it
    /// cannot be told.
    pub const fn side(self) -> Option<Side> {
        match self {
            Self::Idle | Self::PartTime | Self::OverProvisioned => Some(Side::Over),
            Self::RightSized => Some(Side::Right),
            Self::UnderProvisioned | Self::Starved => Some(Side::Under),
            Self::TooEarly | Self::Unknown => None,
        }
    }
}

/// Over-, right- or under-provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// It holds more than it uses.
    Over,
    Right,
    Under,
}

/// A change that a person can make.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// No replicas, or deletion.
    ScaleToZero,
    /// Give the GPUs back in the stretches in which nothing happens.
    Schedule {
        /// Hours of the week, from Sunday midnight (UTC), in which it did something.
        busy_hours: Vec<u8>,
    },
    /// A MIG slice in place of what it holds.
    Slice {
        /// Catalogue name of the board.
        gpu: String,
        profile: String,
    },
    OtherGpu {
        gpu: String,
    },
    /// Another number of replicas.
    Replicas {
        from: u32,
        /// How many suffice.
        to: u32,
    },
    /// Fewer GPUs for each replica: the others did nothing.
    Gpus {
        /// How many each holds.
        from: u32,
        /// How many of them worked.
        to: u32,
    },
    /// More CPUs beside its GPU.
    Cpus {
        from: f64,
        /// How many it should have.
        to: f64,
    },
    /// A GPU with more memory; none in the fleet has where absent.
    MoreMemory {
        /// Catalogue name of the smallest that has.
        gpu: Option<String>,
    },
    /// Several of these at once.
    Combined(Vec<Self>),
}

gpuwise_units::named! {
    /// A change without its quantities.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ChangeKind:
        /// Its name in JSON, CSV and databases.
        name
    {
        ScaleToZero = "scale_to_zero",
        Schedule = "schedule",
        Slice = "slice",
        OtherGpu = "other_gpu",
        Replicas = "replicas",
        Gpus = "gpus",
        Cpus = "cpus",
        MoreMemory = "more_memory",
        Combined = "combined",
    }
}

impl core::fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Change {
    pub const fn kind(&self) -> ChangeKind {
        match self {
            Self::ScaleToZero => ChangeKind::ScaleToZero,
            Self::Schedule { .. } => ChangeKind::Schedule,
            Self::Slice { .. } => ChangeKind::Slice,
            Self::OtherGpu { .. } => ChangeKind::OtherGpu,
            Self::Replicas { .. } => ChangeKind::Replicas,
            Self::Gpus { .. } => ChangeKind::Gpus,
            Self::Cpus { .. } => ChangeKind::Cpus,
            Self::MoreMemory { .. } => ChangeKind::MoreMemory,
            Self::Combined(_) => ChangeKind::Combined,
        }
    }

    /// What is to be done, one by one: itself where it is one thing.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Combined(parts) => parts,
            one => core::slice::from_ref(one),
        }
    }
}

/// What a change frees, averaged over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saving {
    /// GPUs that are given back less those that are taken, of whichever kind, slices as shares: one in
    /// place of another frees none.
    pub gpus: f64,
    /// The same at least.
    pub gpus_low: f64,
    /// The same at most.
    pub gpus_high: f64,
    /// Money an hour; unknown where the GPU has no price.
    pub hourly: Option<Money>,
    /// The same at least.
    pub hourly_low: Option<Money>,
    /// The same at most.
    pub hourly_high: Option<Money>,
}

/// What would have gone wrong in the days looked at, had the change been made before them.
#[derive(Debug, Clone, PartialEq)]
pub struct Risk {
    /// Hours in which it would have had too little; unknown where hours were not seen one by one.
    pub hours_short: Option<u32>,
    pub hours_seen: u32,
    pub note: String,
}

/// Another change that would do, and saves less.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    pub change: Change,
    /// What it is, in words.
    pub title: String,
    pub saving: Saving,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub change: Change,
    /// What it is, in words.
    pub title: String,
    pub saving: Saving,
    /// What may go wrong.
    pub risk: Risk,
    /// The best of each simpler kind, the one that saves most first.
    pub alternatives: Vec<Alternative>,
}

/// What an audit says of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub holder: Holder,
    pub verdict: Verdict,
    /// Why, in one sentence with its figures.
    pub reason: String,
    /// What to do, where something is to be done.
    pub proposal: Option<Proposal>,
    /// Why less was proposed than could have been, and what could not be told.
    pub notes: Vec<String>,
}
