//! The breakdown of kernels by kind and by name.

use super::{Event, Kind, at_once, of_kind};
use gpuwise_domain::profile::hta::{HtaKernel, HtaKernelType, HtaTrace};
use std::collections::BTreeMap;

/// Kinds that are broken down, each with its bit.
const KINDS: [(i64, Kind); 3] = [
    (1, Kind::Computation),
    (2, Kind::Communication),
    (4, Kind::Memory),
];
/// Names that are kept, at most.
const NAMES: usize = 10;
/// The quantile of the running sum above which names become `others`.
const QUANTILE: f64 = 0.8;

/// Adds the time of each kind, and of kinds at once.
pub(super) fn types(events: &[Event], sums: &mut BTreeMap<String, f64>) {
    let merged = KINDS.map(|(bit, kind)| (bit, of_kind(events, kind)));
    let lists: Vec<(i64, &[(f64, f64)])> = merged
        .iter()
        .map(|(bit, ranges)| (*bit, ranges.as_slice()))
        .collect();
    for (running, time) in at_once(&lists) {
        if running > 0 {
            let names: Vec<&str> = KINDS
                .iter()
                .filter(|(bit, _)| running & bit != 0)
                .map(|(_, kind)| kind.name())
                .collect();
            *sums.entry(names.join(" overlapping ")).or_default() += time;
        }
    }
}

/// The longest first, with their shares to one decimal.
pub(super) fn shares(sums: BTreeMap<String, f64>) -> Vec<HtaKernelType> {
    let all: f64 = sums.values().sum();
    let mut types: Vec<HtaKernelType> = sums
        .into_iter()
        .map(|(kernel_type, sum_us)| HtaKernelType {
            kernel_type,
            sum_us,
            percentage: if all > 0.0 {
                (1000.0 * sum_us / all).round_ties_even() / 10.0
            } else {
                0.0
            },
        })
        .collect();
    types.sort_by(|a, b| b.sum_us.total_cmp(&a.sum_us));
    types
}

/// Adds the kernels of one rank: of each kind the longest names, the rest as `others`.
pub(super) fn by_name(rank: u32, trace: &HtaTrace, events: &[Event], out: &mut Vec<HtaKernel>) {
    for (_, kind) in KINDS {
        let mut durations: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for event in events.iter().filter(|event| event.kind == kind) {
            let name = trace.names.get(event.name as usize);
            durations
                .entry(name.map_or("", String::as_str))
                .or_default()
                .push(event.end - event.start);
        }
        let mut kernels: Vec<HtaKernel> = durations
            .into_iter()
            .map(|(name, values)| of_values(name, kind, rank, &values))
            .collect();
        kernels.sort_by(|a, b| b.sum_us.total_cmp(&a.sum_us));
        if kernels.len() > NAMES {
            kernels = with_others(&kernels, kind, rank);
        }
        out.append(&mut kernels);
    }
}

fn of_values(name: &str, kind: Kind, rank: u32, values: &[f64]) -> HtaKernel {
    let count = values.len() as f64;
    let sum_us: f64 = values.iter().sum();
    let mean_us = sum_us / count;
    let squares: f64 = values.iter().map(|value| (value - mean_us).powi(2)).sum();
    HtaKernel {
        name: name.to_owned(),
        kernel_type: kind.name().to_owned(),
        rank,
        sum_us,
        max_us: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        min_us: values.iter().copied().fold(f64::INFINITY, f64::min),
        stddev: if values.len() > 1 {
            libm::sqrt(squares / (count - 1.0))
        } else {
            0.0
        },
        mean_us,
    }
}

/// Names beyond the tenth, or beyond the quantile of the running sum, become one row; every row
/// then describes sums, as there.
fn with_others(kernels: &[HtaKernel], kind: Kind, rank: u32) -> Vec<HtaKernel> {
    let mut running = 0.0;
    let sums: Vec<f64> = kernels
        .iter()
        .map(|kernel| {
            running += kernel.sum_us;
            running
        })
        .collect();
    let place = QUANTILE * (sums.len() - 1) as f64;
    let at = |index: usize| sums.get(index).copied().unwrap_or(running);
    let below = at(place as usize);
    let threshold = below + (at(place as usize + 1) - below) * (place - libm::floor(place));
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for (index, (kernel, sum)) in kernels.iter().zip(&sums).enumerate() {
        if index >= NAMES || *sum > threshold {
            others.push(kernel.sum_us);
        } else {
            kept.push(of_values(&kernel.name, kind, rank, &[kernel.sum_us]));
        }
    }
    kept.push(of_values("others", kind, rank, &others));
    kept
}
