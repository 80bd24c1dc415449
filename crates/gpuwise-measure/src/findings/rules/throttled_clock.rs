//! Kernels ran slower than the same kernels did elsewhere in the trace.

use crate::findings::{
    ledger::{Cause, Ledger},
    lost::Lost,
    rule::{Profile, Rank, Row, Rule, Thresholds, evidence},
    work::{Ordered, launch_of},
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{Index, NameId, Timeline, Work},
};
use std::collections::BTreeMap;

const CAUSE: Cause = Cause("throttled_clock");

const SHARE: Row = Row {
    name: "throttle_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "time lost to slower kernels from which it is said",
    source: "-",
};

const RATIO: Row = Row {
    name: "throttle_ratio",
    value: 1.1,
    unit: "ratio",
    meaning: "how much slower the same kernels must run than in the fastest part",
    source: "-",
};

const RATIO_DOUBTFUL: Row = Row {
    name: "throttle_ratio_doubtful",
    value: 1.3,
    unit: "ratio",
    meaning: "the same where communication ran beside most kernels, or their shapes are not stated",
    source: "untouched traces: 1.24 in deepseek-ai/profile-data beside communication, 1.17 in a graph replay without shapes",
};

const BREADTH: Row = Row {
    name: "throttle_breadth",
    value: 0.6,
    unit: "share of kernel time",
    meaning: "how much of the kernel time of a part must be slower for the clock to be the reason",
    source: "-",
};

const CERTAIN: Row = Row {
    name: "certain_clock",
    value: 0.8,
    unit: "share of the gain",
    meaning: "what a clock that is no longer held back is known to bring",
    source: "-",
};

/// Into how many parts of equal length a rank is cut to see whether its clock fell.
const PARTS: i64 = 24;
/// The same kernel must have run so often to be held against itself.
const REPEATS: usize = 3;
/// Shorter kernels differ by the profiler's resolution.
const STEADY_NS: i64 = 3_000;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "throttled_clock",
        title: "throttled clock",
        signal: "The same kernels (name, grid, block) took `throttle_ratio` longer or more (`throttle_ratio_doubtful` beside communication or without stated shapes) in a part of the trace than in its fastest part, and `throttle_breadth` of the part's kernel time did; the loss is `throttle_share` or more.",
        advice: "Look at clocks, power cap, temperature and at who shares the GPU in that time.",
        gain: "high: time beyond that of the fastest part; low: `certain_clock` of it.",
        source: "NVML clock event reasons; Meta, Zoomer (2025)",
    },
    thresholds: &[RATIO, RATIO_DOUBTFUL, BREADTH, SHARE, CERTAIN],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let low = lost.high() * profile.limits.of(&CERTAIN);
        let statement = format!(
            "The same kernels ran slower in part of the trace: {} was lost to it",
            lost.of_the_time()
        );
        let ratio = Some(profile.limits.of(&RATIO));
        let slower = lost.noted("slower").iter();
        let more = slower.map(|one| evidence("slower", *one, "ratio", ratio)).collect();
        let advice = "Look at clock, power cap and temperature of that time (`nvidia-smi -q -d CLOCK,PERFORMANCE`), and at who shares the GPU.";
        lost.finding(low, statement, &[advice], more)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    if let Some(slower) = charge_slow_parts(rank, ledger) {
        ledger.note(CAUSE, "slower", slower);
    }
}

/// Time lost because the same kernels ran slower in some part of the rank than in the fastest one.
/// Gives how much slower, over the parts that were.
fn charge_slow_parts(rank: &Rank<'_>, ledger: &mut Ledger<'_>) -> Option<f64> {
    let &Rank { timeline, ordered, limits, .. } = rank;
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
            CAUSE,
            start,
            start + width,
            (beyond * rank.alone) as i64,
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
            limits.of(&RATIO_DOUBTFUL)
        } else {
            limits.of(&RATIO)
        }
    }

    /// Whether most kernels of the part are slower, not only some of them.
    fn broad(&self, fastest: f64, least: f64, limits: &Thresholds) -> bool {
        let least = 1.0 + (least - 1.0) / 2.0;
        let slower = self.kernels.iter().filter(|(duration, usual)| {
            *usual > 0 && *duration as f64 / *usual as f64 / fastest >= least
        });
        let time: i64 = slower.map(|(duration, _)| duration).sum();
        time as f64 >= limits.of(&BREADTH) * self.took as f64
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

#[cfg(test)]
mod tests {
use crate::findings::testing::{check, Made};
    use gpuwise_domain::profile::timeline::{Detail, LaunchShape};
#[test]
fn throttled_clock() {
    let slower = |made: &mut Made, same: bool| {
        let shape = made.detail(Detail::Launch(LaunchShape {
            grid: Some([128, 1, 1]),
            ..LaunchShape::default()
        }));
        let mut at = 10;
        for round in 0..200_i64 {
            let late = round >= 100;
            let name = if late && !same {
                "other"
            } else {
                "some_kernel"
            };
            let length = if late { 90 } else { 50 };
            made.kernel(name, at, at + length, 500).detail = shape;
            at += length;
        }
    };
    check(
        "throttled_clock",
        |made| slower(made, true),
        |made| slower(made, false),
    );
}
}
