//! A process that uses no GPU: its operators on the CPU, and what a fix would leave of their time.

use super::ledger::Gained;
use crate::figures::{
    Classifier,
    intervals::Intervals,
    names::{HostPurpose, Remembered},
};
use gpuwise_domain::profile::{
    figures::StepFigures,
    timeline::{Format, HostSpan, Timeline},
};
use std::collections::BTreeMap;

/// Operators that do nothing but call another: what they take beyond it is what recording takes.
/// Source: aten/src/ATen/native/TensorShape.cpp, Scalar.cpp, TensorConversions.cpp of PyTorch 2.7.
const WRAPPERS: [&str; 6] = [
    "aten::item",
    "aten::t",
    "aten::select",
    "aten::transpose",
    "aten::to",
    "aten::_to_copy",
];

/// Recording takes so many times what it shows within the recorded times: the rest lies outside of them.
/// Source: CPU time of loops of `aten::item` and of AdamW with and without the profiler, PyTorch 2.14 on two
/// cores: 1.0 to 1.3 times; as much again is allowed for.
const OUTSIDE: f64 = 2.0;

/// The thread of a process that computes.
#[derive(Debug)]
pub(super) struct Cpu {
    /// From the first operator or step to the last.
    pub(super) span: (i64, i64),
    /// Operators within no other, in order.
    pub(super) top: Vec<HostSpan>,
    /// When it fetched data.
    pub(super) loader: Intervals,
    /// When each of its operators began, in order.
    starts: Vec<i64>,
    /// Steps; the span where there are none.
    steps: Vec<(i64, i64)>,
    /// What the profiler takes to record an operator, in ns.
    recording: f64,
}

/// What a step takes, as recorded or without the recording, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Of the step in all.
    pub(super) step: f64,
    /// Of what a fix takes out.
    pub(super) removed: f64,
}

impl Cpu {
    /// Nothing where a device worked or could have: then its trace lacks what it did.
    pub(super) fn of(
        timeline: &Timeline,
        names: &Classifier,
        steps: Option<&StepFigures>,
    ) -> Option<Self> {
        let mut devices = timeline.devices.iter().chain(&timeline.described_devices);
        let used = !timeline.work.is_empty() || !timeline.calls.is_empty();
        if used || timeline.format != Format::Kineto || devices.any(|one| one.other_kind.is_some())
        {
            return None;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for operator in &timeline.operators {
            *counts.entry(operator.thread).or_default() += 1;
        }
        let (thread, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let own = timeline.operators.iter().filter(|one| one.thread == thread);
        let mut own: Vec<HostSpan> = own.copied().collect();
        own.sort_by_key(|one| (one.start_ns, std::cmp::Reverse(one.end_ns)));
        let recording = recording(timeline, &own);
        let steps = steps.into_iter().flat_map(|figures| &figures.steps);
        let mut steps: Vec<(i64, i64)> = steps.map(|one| (one.start_ns, one.end_ns)).collect();
        let ends = own.iter().map(|one| (one.start_ns, one.end_ns));
        let span = Intervals::union(ends.chain(steps.iter().copied())).hull()?;
        if steps.is_empty() {
            steps.push(span);
        }
        Some(Self {
            span,
            loader: loader(timeline, names),
            starts: own.iter().map(|one| one.start_ns).collect(),
            top: outermost(own),
            steps,
            recording: recording * OUTSIDE,
        })
    }

    pub(super) fn span(&self) -> i64 {
        self.span.1 - self.span.0
    }

    /// Within the steps.
    pub(super) fn in_steps(&self, ranges: &Intervals) -> Intervals {
        ranges.intersection(&Intervals::union(self.steps.iter().copied()))
    }

    fn count(&self, from: i64, to: i64) -> f64 {
        let before = |at| self.starts.partition_point(|start| *start < at);
        (before(to) - before(from)) as f64
    }

    /// By how much the span gets shorter without `removed`, of which `remains` says how much a fix
    /// leaves, at least and at most. Of the median step, since a step that something else of the machine
    /// held up says nothing; without the time that recording took, and with it.
    pub(super) fn gained(
        &self,
        removed: &Intervals,
        remains: impl Fn(Part) -> (f64, f64),
    ) -> Gained {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for &(start, end) in &self.steps {
            let here = removed.within(start, end);
            let ranges = here.ranges().iter();
            let recorded: f64 = ranges.map(|(from, to)| self.count(*from, *to)).sum();
            let with = Part {
                step: (end - start) as f64,
                removed: here.length() as f64,
            };
            let without = Part {
                step: (with.step - self.count(start, end) * self.recording).max(1.0),
                removed: (with.removed - recorded * self.recording).max(0.0),
            };
            let share = |part: Part, remains: f64| (part.removed - remains).max(0.0) / part.step;
            let of = [with, without].map(|part| {
                let (least, most) = remains(part);
                (share(part, most), share(part, least))
            });
            low.push(of[0].0.min(of[1].0));
            high.push(of[0].1.max(of[1].1));
        }
        let ns = |shares: &mut Vec<f64>| (median(shares).min(1.0) * self.span() as f64) as i64;
        Gained {
            low_ns: ns(&mut low),
            high_ns: ns(&mut high),
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Operators within no other.
fn outermost(all: Vec<HostSpan>) -> Vec<HostSpan> {
    let mut until = i64::MIN;
    let mut outer = all;
    outer.retain(|one| {
        let is_outer = one.start_ns >= until;
        if is_outer {
            until = one.end_ns;
        }
        is_outer
    });
    outer
}

/// The median of what operators that only call another take beyond it.
fn recording(timeline: &Timeline, own: &[HostSpan]) -> f64 {
    let mut wraps = Remembered::new(&timeline.names);
    let mut beyond: Vec<f64> = own
        .windows(2)
        .filter_map(|pair| match pair {
            [outer, inner] if inner.end_ns <= outer.end_ns => {
                let wraps = wraps.of(outer.name, |name| WRAPPERS.contains(&name));
                let own = (outer.end_ns - outer.start_ns) - (inner.end_ns - inner.start_ns);
                wraps.then_some(own as f64)
            }
            _ => None,
        })
        .collect();
    median(&mut beyond)
}

fn loader(timeline: &Timeline, names: &Classifier) -> Intervals {
    let mut purposes = Remembered::new(&timeline.names);
    let spans = timeline.annotations.iter().chain(&timeline.operators);
    let loading =
        spans.filter(|span| purposes.of(span.name, |name| names.host(name)) == HostPurpose::Loader);
    Intervals::union(loading.map(|span| (span.start_ns, span.end_ns)))
}
