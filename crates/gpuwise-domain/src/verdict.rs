//! Whether what runs is too large, right or too small for its work, in what, and what to run instead.
//! Data only.

use crate::{
    balance::{Balance, Part},
    deployment::Deployment,
    layout::Layout,
};
use alloc::{string::String, vec::Vec};
use gpuwise_units::{HourlyPrice, Money};

#[derive(Debug, Clone, PartialEq)]
pub struct Current {
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub gpus_per_host: u32,
    pub hosts: u32,
    /// How the model is spread, where that is known; `None`: as well as these GPUs allow.
    pub layout: Option<Layout>,
    /// Price of one host; unknown is not 0.
    pub price: Option<HourlyPrice>,
    pub price_source: String,
}

impl Current {
    pub const fn gpus(&self) -> u32 {
        self.gpus_per_host.saturating_mul(self.hosts)
    }

    /// All hosts, an hour.
    pub fn per_hour(&self) -> Option<HourlyPrice> {
        Some(HourlyPrice(self.price?.0.times(i64::from(self.hosts), 1)))
    }
}

gpuwise_units::named! {
    /// The word on a system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Standing:
        name
    {
        /// Something that costs less keeps the SLO too.
        OverProvisioned = "over-provisioned",
        /// Nothing that keeps the SLO costs much less.
        RightSized = "right-sized",
        /// It does not keep the SLO, or a part of it holds the rest up.
        UnderProvisioned = "under-provisioned",
    }
}

/// In what a system is too large or too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dimension {
    Count,
    Memory,
    /// Matmul rate of GPUs.
    Compute,
    /// Memory bandwidth of GPUs.
    Bandwidth,
    /// Links between GPUs of a group.
    Link,
    /// How the model is spread over GPUs.
    Layout,
    Host(Part),
}

impl Dimension {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "number of GPUs",
            Self::Memory => "GPU memory",
            Self::Compute => "compute",
            Self::Bandwidth => "memory bandwidth",
            Self::Link => "link between GPUs",
            Self::Layout => "layout",
            Self::Host(part) => part.name(),
        }
    }
}

/// How much of a dimension there is beside what is needed.
#[derive(Debug, Clone, PartialEq)]
pub struct DimensionUse {
    pub dimension: Dimension,
    /// What there is over what is needed; below 1 it is short.
    pub factor: f64,
    /// Both, in words: `640 GB of 24 GB`.
    pub words: String,
}

/// The answer to "is this the right size?".
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub standing: Standing,
    pub current: Current,
    /// In what it is too large or too small, most first; empty where it is right.
    pub uses: Vec<DimensionUse>,
    /// Why, in a sentence.
    pub reason: String,
    /// How what runs would do, where it could be sized.
    pub running: Option<Deployment>,
    /// What to run in its place; `None` where nothing is better, or only the host is to be changed.
    pub instead: Option<Deployment>,
    /// An hour; above 0 is saved, below 0 costs more; unknown where a price is.
    pub saving: Option<Money>,
    /// The host around the GPUs, where one was given.
    pub balance: Option<Balance>,
    /// What was assumed, in sentences.
    pub notes: Vec<String>,
}

impl Verdict {
    /// In what it is too large or too small, most of all.
    pub fn dimension(&self) -> Option<Dimension> {
        self.uses.first().map(|of| of.dimension)
    }
}
