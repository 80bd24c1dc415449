//! What is seen of a service of several variants, and what is decided.

use super::Need;
use crate::controller::{Observed, TokensSeen, Wanted};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};

/// What a controller sees when it is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixSeen {
    pub now: Nanoseconds,
    /// Requests that arrived since it was last asked; `None`: metrics say nothing.
    pub arrived: Option<f64>,
    /// Requests that wait, and that run.
    pub queued: f64,
    pub running: f64,
    /// Requests since the beginning, and those of them beyond the SLO.
    pub requests: f64,
    pub late: f64,
    /// Tokens since it was last asked; `None`: nobody counts them.
    #[serde(default)]
    pub tokens: Option<TokensSeen>,
    /// The share of the key-value cache that is used, of all replicas that serve; `None`: it is not known.
    #[serde(default)]
    pub cache: Option<f64>,
    /// Of each variant, in their order.
    pub variants: Vec<VariantSeen>,
}

/// Replicas of a variant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantSeen {
    /// Those that serve, that wake, and that start from nothing.
    pub ready: u32,
    pub waking: u32,
    pub starting: u32,
    /// Those that are warm, and that are on the way to be.
    pub warm: u32,
    pub warming: u32,
    /// Those that take no more requests and are gone when the last they have is over.
    pub leaving: u32,
    /// How long until each that serves would have none of its requests left, the shortest first; none: not known.
    pub frees: Vec<Nanoseconds>,
    /// How long the last one took from nothing until it served, where one became ready since.
    pub started: Option<Nanoseconds>,
    /// Whether none can be had now: its pool was just taken away.
    pub outage: bool,
}

impl VariantSeen {
    /// Replicas that serve or will.
    pub const fn serving(&self) -> u32 {
        self.ready
            .saturating_add(self.waking)
            .saturating_add(self.starting)
    }

    /// Replicas that are warm or on the way to be.
    pub const fn spares(&self) -> u32 {
        self.warm.saturating_add(self.warming)
    }

    /// How long one takes to drain, in the mean, in seconds.
    pub(super) fn drains(&self) -> f64 {
        let all: f64 = self.frees.iter().map(|one| one.seconds().get()).sum();
        all / self.frees.len().max(1) as f64
    }
}

impl MixSeen {
    /// What does not depend on variants.
    pub(super) fn observed(&self) -> Observed {
        Observed {
            now: self.now,
            arrived: self.arrived,
            queued: self.queued,
            running: self.running,
            requests: self.requests,
            late: self.late,
            tokens: self.tokens,
            cache: self.cache,
            ..Observed::default()
        }
    }
}

/// Why there are so many of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixedBy {
    /// As many as there were.
    Kept,
    /// The controller knows this variant alone.
    Amount,
    /// Warm ones are woken: what arrives now needs them.
    Woken,
    /// More, since it covers what is missing at the least cost.
    Cheapest,
    /// Fewer, since less is needed.
    Fewer,
    /// Fewer, since others do the same for less, their start and its draining counted.
    Replaced,
    /// Metrics say nothing: what is there stays.
    NoMetrics,
}

/// What kept a mix from being the cheapest that serves what is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// What serves now stays until others are ready.
    UntilReady,
    /// What is left when a spot pool is lost has to do.
    Loss,
    /// There are no more GPUs, or none for this service.
    Inventory,
    /// It may not cost more an hour.
    Budget,
}

/// Replicas of a variant that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantWanted {
    pub wanted: Wanted,
    pub by: MixedBy,
}

/// What is wanted of each variant, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixDecision {
    pub need: Need,
    pub wanted: Vec<VariantWanted>,
    pub limit: Option<Limit>,
    /// What that costs an hour, at the prices of now.
    pub per_hour: f64,
}

impl MixDecision {
    /// Replicas of all variants that serve, and that are warm.
    pub fn replicas(&self) -> u32 {
        total(self.wanted.iter().map(|one| one.wanted.replicas))
    }

    pub fn warm(&self) -> u32 {
        total(self.wanted.iter().map(|one| one.wanted.warm))
    }
}

/// Replicas of all variants.
fn total(each: impl Iterator<Item = u32>) -> u32 {
    each.fold(0, u32::saturating_add)
}
