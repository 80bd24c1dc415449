//! Work by name and kind, tensor cores, copies, occupancy.

use super::{names::Classifier, ordered::Piece};
use gpuwise_domain::profile::{
    figures::{CopyFigures, KernelFigures, KernelGroup, TensorCoreTime, TensorCores, Weighted},
    timeline::{CopyShape, Detail, LaunchShape, Timeline, WorkClass},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// What is known of the work of a device by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernels {
    pub(super) names: Vec<KernelFigures>,
    pub(super) kinds: Vec<KernelGroup>,
    pub(super) tensor_cores: TensorCoreTime,
    pub(super) copies: Vec<CopyFigures>,
    pub(super) occupancy: Option<Weighted>,
    pub(super) sm_efficiency: Option<Weighted>,
}

/// Count and time of one name.
#[derive(Debug, Clone, Copy)]
struct Sum {
    first: u32,
    kind: u16,
    tensor_cores: TensorCores,
    count: u64,
    total_ns: i64,
    min_ns: i64,
    max_ns: i64,
}

/// A mean in the making.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    weighted: f64,
    known_ns: i64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, duration: i64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.weighted += value * duration as f64;
            self.known_ns += duration;
        }
    }

    fn over(self, of_ns: i64) -> Option<Weighted> {
        (self.known_ns > 0).then(|| Weighted {
            mean: self.weighted / self.known_ns as f64,
            known_ns: self.known_ns,
            of_ns,
        })
    }
}

/// Figures of pieces of work.
pub(super) fn figures(timeline: &Timeline, pieces: &[Piece], names: &Classifier) -> Kernels {
    let mut sums: Vec<Option<Sum>> = vec![None; timeline.names.len()];
    let mut tensor_cores = TensorCoreTime::default();
    let (mut occupancy, mut efficiency) = (Mean::default(), Mean::default());
    let mut kernel_ns = 0;
    let mut copies = BTreeMap::new();
    for piece in pieces {
        let Some(work) = piece.work(timeline) else {
            continue;
        };
        let duration = piece.duration();
        if let Some(sum) = sums.get_mut(work.name.0 as usize) {
            add(sum, piece);
        }
        let detail = timeline.detail_of(work);
        match work.class {
            WorkClass::Kernel => {
                kernel_ns += duration;
                *part_of(&mut tensor_cores, piece.traits.tensor_cores) += duration;
                let launch = launch_of(detail);
                occupancy.add(launch.and_then(|l| l.occupancy_percent), duration);
                let filled = launch.and_then(|l| l.blocks_per_multiprocessor);
                efficiency.add(filled.map(|blocks| blocks.min(1.0) * 100.0), duration);
            }
            WorkClass::Copy => add_copy(&mut copies, detail, duration),
            WorkClass::Set => {}
        }
    }
    let kinds = kinds(sums.iter().flatten(), names);
    Kernels {
        names: by_name(timeline, sums, names),
        kinds,
        tensor_cores,
        copies: by_time(copies.into_values().collect()),
        occupancy: occupancy.over(kernel_ns),
        sm_efficiency: efficiency.over(kernel_ns),
    }
}

fn add(sum: &mut Option<Sum>, piece: &Piece) {
    let duration = piece.duration();
    let sum = sum.get_or_insert(Sum {
        first: piece.index,
        kind: piece.traits.kind,
        tensor_cores: piece.traits.tensor_cores,
        count: 0,
        total_ns: 0,
        min_ns: duration,
        max_ns: duration,
    });
    sum.first = sum.first.min(piece.index);
    sum.count += 1;
    sum.total_ns = sum.total_ns.saturating_add(duration);
    sum.min_ns = sum.min_ns.min(duration);
    sum.max_ns = sum.max_ns.max(duration);
}

fn part_of(time: &mut TensorCoreTime, used: TensorCores) -> &mut i64 {
    match used {
        TensorCores::Used => &mut time.used_ns,
        TensorCores::Unused => &mut time.unused_ns,
        TensorCores::Ineligible => &mut time.ineligible_ns,
        TensorCores::Unknown => &mut time.unknown_ns,
    }
}

pub(crate) fn launch_of(detail: Option<&Detail>) -> Option<&LaunchShape> {
    match detail? {
        Detail::Launch(launch) => Some(launch),
        Detail::Collective(collective) => Some(&collective.launch),
        Detail::Copy(_) | Detail::Set(_) => None,
    }
}

/// The longest sum first; equal ones in order of first appearance in the file.
fn by_name(timeline: &Timeline, sums: Vec<Option<Sum>>, names: &Classifier) -> Vec<KernelFigures> {
    let mut sums: Vec<(usize, Sum)> = sums
        .into_iter()
        .enumerate()
        .filter_map(|(name, sum)| Some((name, sum?)))
        .collect();
    sums.sort_by_key(|(_, sum)| (Reverse(sum.total_ns), sum.first));
    sums.into_iter()
        .map(|(_, sum)| {
            let work = timeline.work.get(sum.first as usize);
            KernelFigures {
                name: work.map_or_else(String::new, |work| {
                    timeline.names.text(work.name).to_owned()
                }),
                kind: names.kind_name(sum.kind).to_owned(),
                tensor_cores: sum.tensor_cores,
                count: sum.count,
                sum_ns: sum.total_ns,
                min_ns: sum.min_ns,
                max_ns: sum.max_ns,
            }
        })
        .collect()
}

fn kinds<'a>(sums: impl Iterator<Item = &'a Sum>, names: &Classifier) -> Vec<KernelGroup> {
    let mut kinds: BTreeMap<&str, KernelGroup> = BTreeMap::new();
    for sum in sums {
        let name = names.kind_name(sum.kind);
        let kind = kinds.entry(name).or_insert_with(|| KernelGroup {
            kind: name.to_owned(),
            count: 0,
            sum_ns: 0,
        });
        kind.count += sum.count;
        kind.sum_ns = kind.sum_ns.saturating_add(sum.total_ns);
    }
    let mut kinds: Vec<KernelGroup> = kinds.into_values().collect();
    kinds.sort_by_key(|kind| Reverse(kind.sum_ns));
    kinds
}

type CopyKey = (
    Option<gpuwise_domain::profile::timeline::Direction>,
    gpuwise_domain::profile::timeline::MemoryKind,
    gpuwise_domain::profile::timeline::MemoryKind,
);

fn add_copy(copies: &mut BTreeMap<CopyKey, CopyFigures>, detail: Option<&Detail>, duration: i64) {
    let shape = match detail {
        Some(Detail::Copy(shape)) => *shape,
        _ => CopyShape::default(),
    };
    let copies = copies
        .entry((shape.direction, shape.source, shape.target))
        .or_insert(CopyFigures {
            direction: shape.direction,
            source: shape.source,
            target: shape.target,
            count: 0,
            sum_ns: 0,
            sized_count: 0,
            bytes: 0,
            sized_ns: 0,
            largest_bytes: 0,
        });
    copies.count += 1;
    copies.sum_ns = copies.sum_ns.saturating_add(duration);
    if let Some(bytes) = shape.bytes {
        copies.sized_count += 1;
        copies.bytes = copies.bytes.saturating_add(bytes);
        copies.sized_ns = copies.sized_ns.saturating_add(duration);
        copies.largest_bytes = copies.largest_bytes.max(bytes);
    }
}

fn by_time(mut copies: Vec<CopyFigures>) -> Vec<CopyFigures> {
    copies.sort_by_key(|copies| Reverse(copies.sum_ns));
    copies
}
