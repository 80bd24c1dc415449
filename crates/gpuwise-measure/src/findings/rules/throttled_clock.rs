//! Kernels ran slower than the same kernels did elsewhere in the trace.

use crate::{
    figures::{intervals::Intervals, names::Remembered},
    findings::{
        beside::{HARDWARE, HEAT, POWER, share_with},
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{Profile, Rank, Row, Rule, Thresholds, evidence},
        work::{Ordered, launch_of},
    },
};
use gpuwise_domain::profile::{
    finding::{Evidence, Finding, FindingDefinition},
    timeline::{Index, NameId, Timeline},
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
    meaning: "the same where the shapes of most kernels are not stated",
    source: "untouched traces: 1.17 in a graph replay without shapes",
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
    meaning: "what a clock that is no longer held back is known to bring, where the trace has its clock",
    source: "-",
};

const CERTAIN_UNRECORDED: Row = Row {
    name: "certain_clock_unrecorded",
    value: 0.5,
    unit: "share of the gain",
    meaning: "the same where the trace has no clock: the kernels ran slower for certain, the reason is likely",
    source: "-",
};

/// Into how many parts of equal length a rank is cut to see whether its clock fell.
const PARTS: i64 = 24;
/// The same kernel must have run so often to be held against itself.
const REPEATS: usize = 3;
/// Shorter kernels differ by the profiler's resolution.
const STEADY_NS: i64 = 3_000;

/// Communication beside a kernel for less than this part of its time is no reason for its slowness.
const ALONE: i64 = 10;

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "throttled_clock",
        title: "throttled clock",
        signal: "Kernels beside which nothing else ran took `throttle_ratio` longer or more than the same kernels (name, grid, block) in the fastest part of the trace (`throttle_ratio_doubtful` without stated shapes), and `throttle_breadth` of the part's kernel time did; the loss is `throttle_share` or more. Where the trace has clocks, or they were recorded beside it often enough (`--with`, four samples within it), the clock was lower as well; kernels beside communication or another stream's share multiprocessors, and are left out.",
        advice: "Look at clocks, power cap, temperature and at who shares the GPU in that time.",
        gain: "high: time beyond that of the fastest part; low: `certain_clock` of it where the trace has clocks, else `certain_clock_unrecorded`.",
        source: "NVML clock event reasons; Meta, Zoomer (2025)",
    },
    thresholds: &[
        RATIO,
        RATIO_DOUBTFUL,
        BREADTH,
        SHARE,
        CERTAIN,
        CERTAIN_UNRECORDED,
    ],
    charge,
    find,
    same_kernels: true,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let ratio = Some(profile.limits.of(&RATIO));
        let slower = lost.noted("slower").iter();
        let mut more: Vec<Evidence> = slower
            .map(|one| evidence("slower", *one, "ratio", ratio))
            .collect();
        let clock = mean(lost.noted("clock")).zip(mean(lost.noted("clock_usual")));
        let (certain, why) = match clock {
            Some((now, usual)) => {
                more.push(evidence("clock", now, "MHz", None));
                more.push(evidence("clock_usual", usual, "MHz", None));
                let why = format!("the clock was {now:.0} MHz there and {usual:.0} MHz elsewhere");
                (profile.limits.of(&CERTAIN), why)
            }
            None => (
                profile.limits.of(&CERTAIN_UNRECORDED),
                "nothing ran beside them, which leaves the clock; the trace does not record it"
                    .to_owned(),
            ),
        };
        let held = HEAT | POWER | HARDWARE;
        if let Some(share) = share_with(&profile.figures.joined, held) {
            more.push(evidence(
                "clock_reasons",
                share,
                "share of the samples",
                None,
            ));
        }
        let statement = format!(
            "The same kernels ran slower in part of the trace: {} was lost to it; {why}",
            lost.of_the_time()
        );
        let advice = profile.stack.clocks();
        lost.finding(certain, statement, &[&advice], more)
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let &Rank {
        timeline, limits, ..
    } = rank;
    let Some(parts) = parts(rank) else { return };
    let all: i64 = parts.iter().map(|part| part.took).sum();
    let mut ratios: Vec<(f64, i64)> = parts
        .iter()
        .filter(|part| part.took > all / 200 && part.kernels.len() >= REPEATS)
        .map(|part| (part.ratio(), part.usual))
        .collect();
    ratios.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let Some(fastest) = fastest(&ratios) else {
        return;
    };
    let clocks = Clocks::new(timeline);
    let usual = clocks.highest(&parts, fastest);
    let mut low = Vec::new();
    let said: Vec<Option<f64>> = parts
        .iter()
        .map(|part| part.says(fastest, &clocks, usual, limits, &mut low))
        .collect();
    let (mut took, mut lost) = (0.0, 0.0);
    for (part, slower) in parts.iter().zip(between(&said)) {
        if slower <= 1.0 {
            continue;
        }
        let beyond = 1.0 - 1.0 / slower;
        took += part.took as f64;
        lost += part.took as f64 * beyond;
        // The clock is that of all kernels, also of those that say nothing of it.
        let within = |start| part.from <= start && (start < part.to || part.last);
        let kernels = rank.ordered.kernels(timeline);
        for kernel in kernels.filter(|kernel| within(kernel.start)) {
            let ns = (kernel.duration() as f64 * beyond * rank.alone) as i64;
            ledger.charge_work(CAUSE, kernel.place, ns, (ns, ns));
        }
    }
    if lost > 0.0 {
        ledger.note(CAUSE, "slower", took / (took - lost));
        if let (Some(usual), Some(clock)) = (usual, mean(&low)) {
            ledger.note(CAUSE, "clock", clock);
            ledger.note(CAUSE, "clock_usual", usual);
        }
    }
}

/// How much slower each part was. A clock that is held back stays so for a while: a part that says nothing
/// between two that were slow, or beside one at an end of the trace, is as slow as they are.
fn between(said: &[Option<f64>]) -> Vec<f64> {
    let of = |place: usize| {
        let (before, after) = said.split_at(place);
        if let Some(own) = after.first().copied().flatten() {
            return own;
        }
        let around = (
            before.iter().rev().find_map(|one| *one),
            after.iter().find_map(|one| *one),
        );
        match around {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other).unwrap_or(1.0),
        }
    };
    (0..said.len()).map(of).collect()
}

/// The trace in parts of equal length, with the kernels that ran alone in each.
fn parts(rank: &Rank<'_>) -> Option<Vec<Part>> {
    let &Rank {
        timeline, ordered, ..
    } = rank;
    let (from, to) = ordered.busy.hull()?;
    let width = ((to - from) / PARTS).max(1);
    let medians = medians(timeline, ordered);
    let shared = shared(ordered);
    let mut parts: Vec<Part> = (0..PARTS)
        .map(|place| Part {
            from: from + place * width,
            to: from + (place + 1) * width,
            last: place + 1 == PARTS,
            ..Part::default()
        })
        .collect();
    for kernel in ordered.kernels(timeline) {
        let duration = kernel.duration();
        let place = ((kernel.start - from) / width).min(PARTS - 1);
        let place = usize::try_from(place).unwrap_or(0);
        if let Some(part) = parts.get_mut(place) {
            part.all += duration;
        }
        let Some(&usual) = medians.get(&(kernel.work.name, kernel.work.detail)) else {
            continue;
        };
        if shared.overlap_range(kernel.start, kernel.end) * ALONE > duration {
            continue;
        }
        if let Some(part) = parts.get_mut(place) {
            part.kernels.push((duration, usual));
            part.took += duration;
            part.usual += usual;
            let shape = launch_of(timeline, kernel.work).and_then(|launch| launch.grid);
            if shape.is_none() {
                part.doubtful += duration;
            }
        }
    }
    Some(parts)
}

/// When more than one kernel ran, of communication or of another stream: they share multiprocessors.
fn shared(ordered: &Ordered) -> Intervals {
    let mut two = Vec::new();
    let mut latest = i64::MIN;
    for &(start, end, _) in &ordered.pieces {
        if start < latest.min(end) {
            two.push((start, latest.min(end)));
        }
        latest = latest.max(end);
    }
    Intervals::union(two)
}

/// Samples of the clock of multiprocessors, in order of time.
struct Clocks(Vec<(i64, f64)>);

impl Clocks {
    fn new(timeline: &Timeline) -> Self {
        let mut known = Remembered::new(&timeline.names);
        let is_clock = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.contains("clock") && (name.contains("gpc") || name.contains("sm"))
        };
        let samples = timeline.samples.iter();
        let mut clocks: Vec<(i64, f64)> = samples
            .filter(|sample| known.of(sample.name, is_clock) && sample.value > 0.0)
            .map(|sample| (sample.at_ns, sample.value))
            .collect();
        clocks.sort_by_key(|sample| sample.0);
        Self(clocks)
    }

    fn within(&self, from: i64, to: i64) -> Option<f64> {
        let first = self.0.partition_point(|sample| sample.0 < from);
        let after = self.0.partition_point(|sample| sample.0 < to);
        let values: Vec<f64> = self.0.get(first..after)?.iter().map(|s| s.1).collect();
        mean(&values)
    }

    /// That of the fast parts: the highest among them.
    fn highest(&self, parts: &[Part], fastest: f64) -> Option<f64> {
        let fast = parts
            .iter()
            .filter(|part| part.took > 0 && part.ratio() <= fastest * 1.02);
        fast.filter_map(|part| self.within(part.from, part.to))
            .max_by(f64::total_cmp)
    }
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
    from: i64,
    to: i64,
    /// What begins later belongs to it as well.
    last: bool,
    /// Duration and usual duration.
    kernels: Vec<(i64, i64)>,
    took: i64,
    /// Of all its kernels, also of those that shared the device.
    all: i64,
    usual: i64,
    /// Of kernels whose shape is not stated: the same name may stand for other work.
    doubtful: i64,
}

impl Part {
    fn ratio(&self) -> f64 {
        if self.usual > 0 {
            self.took as f64 / self.usual as f64
        } else {
            1.0
        }
    }

    /// How much slower than the fastest it was, 1 where it was not; nothing where most of it says nothing.
    fn says(
        &self,
        fastest: f64,
        clocks: &Clocks,
        usual: Option<f64>,
        limits: &Thresholds,
        low: &mut Vec<f64>,
    ) -> Option<f64> {
        let clock = clocks.within(self.from, self.to);
        // Without a clock, most of the part must speak for it.
        if self.took == 0 || clock.is_none() && self.took * 2 < self.all {
            return None;
        }
        let slower = self.ratio() / fastest;
        let least = self.least(limits);
        if slower < least || !self.broad(fastest, least, limits) {
            return Some(1.0);
        }
        if let Some((clock, usual)) = clock.zip(usual) {
            // Kernels that are bound by memory follow the clock in part.
            if clock * (1.0 + (slower - 1.0) / 2.0) > usual {
                return Some(1.0);
            }
            low.push(clock);
        }
        Some(slower)
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
    for kernel in ordered.kernels(timeline) {
        let key = (kernel.work.name, kernel.work.detail);
        groups.entry(key).or_default().push(kernel.duration());
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
    use crate::findings::testing::{Made, check};
    use gpuwise_domain::profile::timeline::{CounterSample, Detail, LaunchShape};
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
        // Communication beside the slow ones: they share multiprocessors.
        check(
            "throttled_clock",
            |made| slower(made, true),
            |made| {
                slower(made, true);
                made.kernel("ncclDevKernel_AllGather_RING_LL", 5010, 14_010, 500)
                    .stream = 1;
            },
        );
        let recorded = |made: &mut Made, then: f64| {
            slower(made, true);
            let name = made.name("GPC Clock Frequency [MHz]");
            for at in 0..140 {
                made.0.samples.push(CounterSample {
                    at_ns: at * 100_000,
                    device: 0,
                    name,
                    value: if at < 50 { 1980.0 } else { then },
                });
            }
        };
        check(
            "throttled_clock",
            |made| recorded(made, 1100.0),
            |made| recorded(made, 1980.0),
        );
    }
}
