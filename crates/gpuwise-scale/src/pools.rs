//! Whose weights lie in the memory of a node, so that a start there need not read them from where they are stored.
//!
//! Memory is finite. A model is worth the seconds that its starts will be shorter by: the chance that it starts there
//! within the horizon, times what a start saves, for each gigabyte that it takes. The worthiest stay; one that is
//! there already gives way only to one that is worth clearly more, so that models of like worth do not chase each
//! other out.

use crate::cold::{ColdStart, Level, Machine, State};
use gpuwise_units::{Bytes, Nanoseconds};
use serde::{Deserialize, Serialize};

/// A start counts half after so long.
pub const HALF_LIFE: Nanoseconds = Nanoseconds(6 * 3_600_000_000_000);
/// For how long ahead the chance of a start is asked.
pub const HORIZON: Nanoseconds = Nanoseconds(3_600_000_000_000);
/// One that is there gives way to one that is worth so many times as much.
const MARGIN: f64 = 1.25;
const GB: f64 = 1e9;

/// How often a model is started: starts, each counted less with its age.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Popularity {
    count: f64,
    at: Nanoseconds,
}

impl Popularity {
    fn aged(&self, now: Nanoseconds) -> f64 {
        let age = now.0.saturating_sub(self.at.0) as f64;
        self.count * libm::exp2(-age / HALF_LIFE.0 as f64)
    }

    /// It is started.
    pub fn starts(&mut self, now: Nanoseconds) {
        self.count = self.aged(now) + 1.0;
        self.at = self.at.max(now);
    }

    /// Starts an hour: what a steady rate would have left.
    pub fn an_hour(&self, now: Nanoseconds) -> f64 {
        let hours = HALF_LIFE.0 as f64 / 3.6e12;
        self.aged(now) * core::f64::consts::LN_2 / hours
    }

    /// The chance that it is started at least once within a time, where starts come by chance at this rate.
    pub fn chance(&self, now: Nanoseconds, within: Nanoseconds) -> f64 {
        -libm::expm1(-self.an_hour(now) * within.0 as f64 / 3.6e12)
    }
}

/// Seconds that a start is shorter by where weights are in host memory already: of starts that were seen of both, else
/// by their bytes.
pub fn saves(
    weights: Bytes,
    image: Option<&ColdStart>,
    memory: Option<&ColdStart>,
    machine: &Machine,
) -> f64 {
    let prior = |state| ColdStart::prior(weights, state, machine);
    let seconds = |cold: &ColdStart| cold.at(Level::Median).seconds().get();
    let (image, memory) = match (image, memory) {
        (Some(image), Some(memory)) => (*image, *memory),
        _ => (prior(State::ImageThere), prior(State::HostMemory)),
    };
    (seconds(&image) - seconds(&memory)).max(0.0)
}

/// A model that may be kept in the memory of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub bytes: u64,
    /// That it is started there within the horizon.
    pub chance: f64,
    /// Seconds that such a start is shorter by.
    pub saves: f64,
    /// Whether it is there, or on its way.
    pub there: bool,
}

impl Candidate {
    /// Seconds saved for a gigabyte.
    pub fn worth(&self) -> f64 {
        if self.bytes == 0 {
            return 0.0;
        }
        self.chance.clamp(0.0, 1.0) * self.saves.max(0.0) / (self.bytes as f64 / GB)
    }
}

/// Which of them are to be in a memory of so many bytes: the worthiest that fit beside each other.
pub fn choose(memory: u64, candidates: &[Candidate]) -> Vec<bool> {
    let rank = |one: &Candidate| one.worth() * if one.there { MARGIN } else { 1.0 };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| {
        let of = |at: &usize| candidates.get(*at).map_or(0.0, rank);
        of(b).total_cmp(&of(a)).then(a.cmp(b))
    });
    let mut kept = vec![false; candidates.len()];
    let mut left = memory;
    for at in order {
        let (Some(one), Some(keeps)) = (candidates.get(at), kept.get_mut(at)) else {
            continue;
        };
        if one.worth() > 0.0 && one.bytes <= left {
            left -= one.bytes;
            *keeps = true;
        }
    }
    kept
}
