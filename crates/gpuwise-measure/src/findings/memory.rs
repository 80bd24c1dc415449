//! Device memory: nearly full, or held by nothing.

use super::{Thresholds, rules::shown, say};
use gpuwise_domain::profile::{
    figure::Scope,
    figures::{MemoryFigures, ProfileFigures, RankFigures},
    finding::{Finding, Gain, Place},
};

/// What is found of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nearly all of it is held.
    Full,
    /// Much of what is held lies in no tensor.
    Fragmented,
}

/// From here on the next allocation may end the run.
pub(super) const NEARLY_FULL: f64 = 0.8;

/// Memory of devices, with the rank.
fn devices(figures: &ProfileFigures) -> impl Iterator<Item = (&RankFigures, &MemoryFigures)> {
    figures.ranks.iter().flat_map(|rank| {
        let devices = rank.memory.iter().filter(|memory| memory.device.is_some());
        devices.map(move |memory| (rank, memory))
    })
}

/// The highest reserved share of any device.
pub(super) fn pressure(figures: &ProfileFigures) -> Option<f64> {
    devices(figures)
        .filter_map(|(_, memory)| Some(memory.peak_reserved? as f64 / memory.capacity? as f64))
        .max_by(f64::total_cmp)
}

/// Bytes of the smallest device.
pub(super) fn capacity(figures: &ProfileFigures) -> Option<u64> {
    devices(figures)
        .filter_map(|(_, memory)| memory.capacity)
        .min()
}

/// What is found of memory; nothing where its figures are not there.
pub(super) fn findings(figures: &ProfileFigures, limits: &Thresholds) -> Vec<(Kind, Finding)> {
    let mut found = Vec::new();
    for (rank, memory) in devices(figures) {
        let (Some(reserved), Some(capacity)) = (memory.peak_reserved, memory.capacity) else {
            continue;
        };
        if capacity == 0 {
            continue;
        }
        let scope = Scope {
            rank: rank.rank,
            device: memory.device,
            part: None,
        };
        let place = Place {
            rank: rank.rank,
            device: memory.device,
            start_ns: memory.peak_at_ns,
            end_ns: memory.peak_at_ns,
            what: "the peak".to_owned(),
        };
        let full = full(reserved, capacity, &scope, &place, limits);
        found.extend(full.map(|finding| (Kind::Full, finding)));
        if let Some(slack) = memory.slack_at_peak {
            let fragmented = fragmented(reserved, slack, capacity, &scope, &place, limits);
            found.extend(fragmented.map(|finding| (Kind::Fragmented, finding)));
        }
    }
    found
}

fn full(
    reserved: u64,
    capacity: u64,
    scope: &Scope,
    place: &Place,
    limits: &Thresholds,
) -> Option<Finding> {
    let share = reserved as f64 / capacity as f64;
    let allowed = (limits.memory_full * capacity as f64) as u64;
    (share >= limits.memory_full).then(|| Finding {
        class: "memory_capacity".to_owned(),
        scope: scope.clone(),
        statement: format!(
            "The allocator holds {} of the GPU's memory at its peak: a larger batch or sequence ends in out of memory",
            say::percent(share)
        ),
        evidence: vec![
            shown("reserved_share", share, "share of the device", Some(limits.memory_full)),
            shown("peak_reserved", reserved as f64, "bytes", None),
            shown("capacity", capacity as f64, "bytes", None),
        ],
        places: vec![place.clone()],
        gain: Gain::Memory {
            low: reserved.saturating_sub(allowed),
            high: reserved.saturating_sub(allowed),
        },
        advice: vec![
            "Activation checkpointing, a smaller micro-batch with accumulation, sharded optimizer and weights, or a GPU with more memory.".to_owned(),
        ],
    })
}

fn fragmented(
    reserved: u64,
    slack: u64,
    capacity: u64,
    scope: &Scope,
    place: &Place,
    limits: &Thresholds,
) -> Option<Finding> {
    let share = slack as f64 / (reserved as f64).max(1.0);
    let pressure = reserved as f64 / capacity as f64;
    let fires = share >= limits.fragmentation_slack && pressure >= limits.fragmentation_pressure;
    fires.then(|| Finding {
        class: "fragmentation".to_owned(),
        scope: scope.clone(),
        statement: format!(
            "{} of the reserved memory lie in no tensor at the peak, on a GPU of which {} are reserved",
            say::percent(share),
            say::percent(pressure)
        ),
        evidence: vec![
            shown("slack_share", share, "share of reserved bytes", Some(limits.fragmentation_slack)),
            shown("reserved_share", pressure, "share of the device", Some(limits.fragmentation_pressure)),
            shown("slack_at_peak", slack as f64, "bytes", None),
        ],
        places: vec![place.clone()],
        gain: Gain::Memory {
            low: slack / 2,
            high: slack,
        },
        advice: vec![
            "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; fixed shapes (pad to buckets); no large tensors freed and allocated anew in the loop.".to_owned(),
        ],
    })
}
