//! Time in which a device worked, but not as it could: copies, communication, slow kernels.

use super::{
    Thresholds,
    ledger::{Cause, Ledger},
    work::{Ordered, launch_of, on_host},
};
use crate::figures::intervals::Intervals;
use gpuwise_domain::profile::{
    figures::TensorCores,
    timeline::{Detail, Direction, Index, MemoryKind, NameId, Timeline, Work, WorkClass},
};
use std::collections::BTreeMap;

/// Into how many parts of equal length a rank is cut to see whether its clock fell.
const PARTS: i64 = 24;
/// The same kernel must have run so often to be held against itself.
const REPEATS: usize = 3;
/// Shorter kernels differ by the profiler's resolution.
const STEADY_NS: i64 = 3_000;
/// Dense tensor-core peak over that of FP32 units: V100 125 / 15.7, A100 TF32 156 / 19.5, H100 TF32
/// 494 / 67 (NVIDIA data sheets).
const TENSOR_RATIO: f64 = 8.0;

/// Bytes and time of copies that the host waited for or the device could not hide.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CopyTotals {
    /// Bytes, where stated.
    pub bytes: u64,
    /// Time of those.
    pub sized_ns: i64,
    /// Exposed time.
    pub exposed_ns: i64,
}

impl CopyTotals {
    /// Bytes a second.
    pub fn rate(&self) -> Option<f64> {
        (self.sized_ns > 0 && self.bytes > 0)
            .then(|| self.bytes as f64 / (self.sized_ns as f64 * 1e-9))
    }
}

/// Copies between host and device under which nothing was computed: pageable ones, and others.
pub(super) fn copies(
    timeline: &Timeline,
    ordered: &Ordered,
    ledger: &mut Ledger<'_>,
) -> [CopyTotals; 2] {
    let mut kinds: [Vec<(&Work, Option<u64>)>; 2] = Default::default();
    for &(_, _, index) in &ordered.pieces {
        let Some(work) = timeline.work.get(index as usize) else {
            continue;
        };
        let Some(Detail::Copy(shape)) = timeline.detail_of(work) else {
            continue;
        };
        let over_link = matches!(
            shape.direction,
            Some(Direction::HostToDevice | Direction::DeviceToHost)
        ) || on_host(shape.source) != on_host(shape.target);
        if work.class != WorkClass::Copy || !over_link {
            continue;
        }
        let pageable = [shape.source, shape.target].contains(&MemoryKind::Pageable);
        let [pageables, others] = &mut kinds;
        if pageable { pageables } else { others }.push((work, shape.bytes));
    }
    let [pageables, others] = kinds;
    [(pageables, Cause::Pageable), (others, Cause::Pcie)].map(|(copies, cause)| {
        let union = Intervals::union(copies.iter().map(|(w, _)| (w.start_ns, w.end_ns)));
        let exposed = union
            .without(&ordered.computing)
            .without(&ordered.communicating);
        let mut totals = CopyTotals::default();
        let mut until = i64::MIN;
        for (work, bytes) in copies {
            let start = work.start_ns.max(until);
            until = until.max(work.end_ns);
            let ns = exposed.overlap_range(start, work.end_ns.max(start));
            ledger.charge(cause, work.start_ns, work.end_ns, ns, work.name);
            totals.exposed_ns += ns;
            if let Some(bytes) = bytes {
                totals.bytes = totals.bytes.saturating_add(bytes);
                totals.sized_ns += work.end_ns - work.start_ns;
            }
        }
        totals
    })
}

/// Communication under which nothing was computed.
pub(super) fn communication(timeline: &Timeline, ordered: &Ordered, ledger: &mut Ledger<'_>) {
    let exposed = &ordered.only_communicating;
    let mut until = i64::MIN;
    for &(start, end, index) in &ordered.pieces {
        let Some(work) = timeline.work.get(index as usize) else {
            continue;
        };
        if ordered.traits_of(work).is_some_and(|t| t.communication) {
            let from = start.max(until);
            until = until.max(end);
            let ns = exposed.overlap_range(from, end.max(from));
            ledger.charge(Cause::Communication, start, end, ns, work.name);
        }
    }
}

/// Kernels without tensor cores, and kernels that leave multiprocessors empty. Where kernels ran
/// beside one another each is charged its part of the time.
pub(super) fn kernels(
    timeline: &Timeline,
    ordered: &Ordered,
    limits: &Thresholds,
    ledger: &mut Ledger<'_>,
) {
    let alone = alone(timeline, ordered);
    for (work, traits) in ordered.kernels(timeline) {
        let duration = (work.end_ns - work.start_ns) as f64 * alone;
        if traits.tensor_cores == TensorCores::Unused && has_tensor_cores(timeline, work) {
            let lost = duration * (1.0 - 1.0 / TENSOR_RATIO);
            let cause = precision(timeline, work);
            ledger.charge(cause, work.start_ns, work.end_ns, lost as i64, work.name);
        }
        let blocks = launch_of(timeline, work).and_then(|l| l.blocks_per_multiprocessor);
        let long = (work.end_ns - work.start_ns) as f64 >= limits.small_kernel_ns;
        if let Some(blocks) = blocks.filter(|b| *b < limits.occupancy_blocks && long) {
            let lost = duration * (1.0 - blocks.max(0.0));
            ledger.charge(
                Cause::Occupancy,
                work.start_ns,
                work.end_ns,
                lost as i64,
                work.name,
            );
        }
    }
}

/// Time in which anything was computed over the sum of kernels' durations.
fn alone(timeline: &Timeline, ordered: &Ordered) -> f64 {
    let sum: i64 = ordered
        .kernels(timeline)
        .map(|(work, _)| work.end_ns - work.start_ns)
        .sum();
    if sum > 0 {
        ordered.computing.length() as f64 / sum as f64
    } else {
        0.0
    }
}

/// Tensor cores came with compute capability 7.0 (NVIDIA Volta).
fn has_tensor_cores(timeline: &Timeline, work: &Work) -> bool {
    timeline
        .device_of(work)
        .and_then(|device| device.compute_capability)
        .is_some_and(|(major, _)| major >= 7)
}

/// Whether operands are of a type that tensor cores take; where that is not stated FP32 is assumed,
/// as most that runs on other units is.
fn precision(timeline: &Timeline, work: &Work) -> Cause {
    let operands = timeline
        .operator_of(work)
        .and_then(|operator| timeline.operands.get(operator.operands.get()?));
    let narrow = |name: &String| {
        let name = name.to_ascii_lowercase();
        name.contains("half") || name.contains("bfloat16") || name.contains("float8")
    };
    match operands {
        Some(operands) if operands.types.iter().any(narrow) => Cause::TensorCores,
        _ => Cause::Precision,
    }
}

/// Time lost because the same kernels ran slower in some part of the rank than in the fastest one.
/// Gives how much slower, over the parts that were.
pub(super) fn throttled(
    timeline: &Timeline,
    ordered: &Ordered,
    limits: &Thresholds,
    ledger: &mut Ledger<'_>,
) -> Option<f64> {
    let (from, to) = ordered.busy.hull()?;
    let width = ((to - from) / PARTS).max(1);
    let medians = medians(timeline, ordered);
    let mut parts: Vec<Part> = (0..PARTS).map(|_| Part::default()).collect();
    for (work, _) in ordered.kernels(timeline) {
        let duration = work.end_ns - work.start_ns;
        let Some(&usual) = medians.get(&(work.name, work.detail)) else {
            continue;
        };
        let place = ((work.start_ns - from) / width).min(PARTS - 1);
        let part = usize::try_from(place).unwrap_or(0);
        if let Some(part) = parts.get_mut(part) {
            part.kernels.push((duration, usual));
            part.took += duration;
            part.usual += usual;
            if doubtful(timeline, ordered, work) {
                part.doubtful += duration;
            }
            if duration > part.longest.0 {
                part.longest = (duration, Some(work.name));
            }
        }
    }
    let all: i64 = parts.iter().map(|part| part.took).sum();
    let mut ratios: Vec<(f64, i64)> = parts
        .iter()
        .filter(|part| part.took > all / 200 && part.kernels.len() >= REPEATS)
        .map(|part| (part.ratio(), part.usual))
        .collect();
    ratios.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let fastest = fastest(&ratios)?;
    let alone = alone(timeline, ordered);
    let (mut took, mut lost) = (0.0, 0.0);
    for (place, part) in (0_i64..).zip(&parts) {
        let slower = part.ratio() / fastest;
        let least = part.least(limits);
        if part.took == 0 || slower < least || !part.broad(fastest, least, limits) {
            continue;
        }
        let beyond = part.took as f64 * (1.0 - 1.0 / slower);
        took += part.took as f64;
        lost += beyond;
        let start = from + place * width;
        let name = part.longest.1.unwrap_or(NameId(0));
        ledger.charge(
            Cause::Throttled,
            start,
            start + width,
            (beyond * alone) as i64,
            name,
        );
    }
    (lost > 0.0).then(|| took / (took - lost))
}

/// Whether a kernel may be slower for another reason: it shared the device with communication, or
/// without a shape the same name may stand for other work.
fn doubtful(timeline: &Timeline, ordered: &Ordered, work: &Work) -> bool {
    let shape = launch_of(timeline, work).and_then(|launch| launch.grid);
    let beside = ordered
        .communicating
        .overlap_range(work.start_ns, work.end_ns);
    shape.is_none() || beside * 2 > work.end_ns - work.start_ns
}

/// The ratio below which a twentieth of the work lies: one part alone may be fast by chance.
fn fastest(sorted: &[(f64, i64)]) -> Option<f64> {
    let all: i64 = sorted.iter().map(|(_, usual)| usual).sum();
    let mut sum = 0;
    let enough = sorted.iter().find(|(_, usual)| {
        sum += usual;
        sum >= all / 20
    });
    enough.map(|(ratio, _)| *ratio)
}

#[derive(Debug, Default)]
struct Part {
    kernels: Vec<(i64, i64)>,
    took: i64,
    usual: i64,
    /// Of kernels that may be slower for another reason than the clock.
    doubtful: i64,
    longest: (i64, Option<NameId>),
}

impl Part {
    fn ratio(&self) -> f64 {
        if self.usual > 0 {
            self.took as f64 / self.usual as f64
        } else {
            1.0
        }
    }

    /// How much slower it must be.
    fn least(&self, limits: &Thresholds) -> f64 {
        if self.doubtful * 2 > self.took {
            limits.throttle_ratio_doubtful
        } else {
            limits.throttle_ratio
        }
    }

    /// Whether most kernels of the part are slower, not only some of them.
    fn broad(&self, fastest: f64, least: f64, limits: &Thresholds) -> bool {
        let least = 1.0 + (least - 1.0) / 2.0;
        let slower = self.kernels.iter().filter(|(duration, usual)| {
            *usual > 0 && *duration as f64 / *usual as f64 / fastest >= least
        });
        let time: i64 = slower.map(|(duration, _)| duration).sum();
        time as f64 >= limits.throttle_breadth * self.took as f64
    }
}

/// The usual duration of each kernel that ran often, by name and shape.
fn medians(timeline: &Timeline, ordered: &Ordered) -> BTreeMap<(NameId, Index), i64> {
    let mut groups: BTreeMap<(NameId, Index), Vec<i64>> = BTreeMap::new();
    for (work, _) in ordered.kernels(timeline) {
        let durations = groups.entry((work.name, work.detail)).or_default();
        durations.push(work.end_ns - work.start_ns);
    }
    groups
        .into_iter()
        .filter_map(|(key, mut durations)| {
            let middle = durations.len() / 2;
            let (_, median, _) = durations.select_nth_unstable(middle);
            let median = *median;
            (durations.len() >= REPEATS && median >= STEADY_NS).then_some((key, median))
        })
        .collect()
}
