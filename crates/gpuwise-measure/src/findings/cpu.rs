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

/// The thread of a process that computes.
#[derive(Debug)]
pub(super) struct Cpu {
    /// From the first operator or step to the last.
    pub(super) span: (i64, i64),
    /// Operators within no other, in order.
    pub(super) top: Vec<HostSpan>,
    /// When each of its operators began, those within others too, in order.
    begins: Vec<i64>,
    /// When it fetched data.
    pub(super) loader: Intervals,
    /// Steps; the span where there are none.
    steps: Vec<(i64, i64)>,
}

/// What of a step a fix takes out, and what it leaves of that, in ns as recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Of the step in all.
    pub(super) step: f64,
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
        let steps = steps.into_iter().flat_map(|figures| &figures.steps);
        let mut steps: Vec<(i64, i64)> = steps.map(|one| (one.start_ns, one.end_ns)).collect();
        let ends = own.iter().map(|one| (one.start_ns, one.end_ns));
        let span = Intervals::union(ends.chain(steps.iter().copied())).hull()?;
        if steps.is_empty() {
            steps.push(span);
        }
        Some(Self {
            span,
            begins: own.iter().map(|one| one.start_ns).collect(),
            loader: loader(timeline, names),
            top: outermost(own),
            steps,
        })
    }

    pub(super) fn span(&self) -> i64 {
        self.span.1 - self.span.0
    }

    /// Within the steps.
    pub(super) fn in_steps(&self, ranges: &Intervals) -> Intervals {
        ranges.intersection(&Intervals::union(self.steps.iter().copied()))
    }

    /// By how much the span gets shorter without `removed`, of which `remains` says how much a fix
    /// leaves, at least and at most, and which takes at most `slowed` times as long as without the
    /// profiler: as in the tenth of steps in which it takes the least, and the most, since others use the
    /// machine as well. Recording takes its time of every operator: at least, it slowed what is removed
    /// alone, and at most the others alone, each by as much as one of those in `removed` can have been.
    pub(super) fn gained(
        &self,
        removed: &Intervals,
        slowed: f64,
        remains: impl Fn(Part) -> (f64, f64),
    ) -> Gained {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for &(start, end) in &self.steps {
            let inside = removed.within(start, end);
            let part = Part {
                step: ((end - start) as f64).max(1.0),
                removed: inside.length() as f64,
            };
            let (least, most) = remains(part);
            let other = part.step - part.removed;
            let within = inside.ranges().iter();
            let recorded: usize = within.map(|&(from, to)| self.recorded(from, to)).sum();
            let others = self.recorded(start, end).saturating_sub(recorded);
            let each = part.removed * (1.0 - 1.0 / slowed) / recorded.max(1) as f64;
            let unrecorded = (other - each * others as f64).max(other / slowed) + part.removed;
            high.push((part.removed - least).max(0.0) / unrecorded.max(1.0));
            let unrecorded = other + part.removed / slowed;
            low.push((part.removed - most).max(0.0) / slowed / unrecorded.max(1.0));
        }
        let ns = |share: f64| (share.min(1.0) * self.span() as f64) as i64;
        Gained {
            low_ns: ns(quantile(&mut low, 0.1)),
            high_ns: ns(quantile(&mut high, 0.9)),
        }
    }

    /// How many operators began in a range.
    fn recorded(&self, start: i64, end: i64) -> usize {
        let until = |at: i64| self.begins.partition_point(|one| *one < at);
        until(end) - until(start)
    }
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share) as usize;
    values.get(place).copied().unwrap_or(0.0)
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

fn loader(timeline: &Timeline, names: &Classifier) -> Intervals {
    let mut purposes = Remembered::new(&timeline.names);
    let spans = timeline.annotations.iter().chain(&timeline.operators);
    let loading =
        spans.filter(|span| purposes.of(span.name, |name| names.host(name)) == HostPurpose::Loader);
    Intervals::union(loading.map(|span| (span.start_ns, span.end_ns)))
}

#[cfg(test)]
mod tests {
    use super::Cpu;
    use crate::figures::intervals::Intervals;

    /// A step of 1,000 ns: 500 with five operators, and 500 with ten that a fix takes out.
    #[test]
    fn what_is_removed_and_what_stays_are_both_slower_while_they_are_recorded() {
        let cpu = Cpu {
            span: (0, 1000),
            top: Vec::new(),
            begins: (0..5)
                .map(|at| at * 100)
                .chain((0..10).map(|at| 500 + at * 50))
                .collect(),
            loader: Intervals::default(),
            steps: vec![(0, 1000)],
        };
        let removed = Intervals::union([(500, 1000)]);
        let gained = |slowed| cpu.gained(&removed, slowed, |_| (0.0, 0.0));
        // Half of 500 is recording, 25 of each: the rest takes 500 - 5 · 25 at the best, or the loop 250 beside 500.
        assert_eq!((gained(2.0).high_ns, gained(2.0).low_ns), (571, 333));
        // Nothing is slower: half of the step, both.
        assert_eq!((gained(1.0).high_ns, gained(1.0).low_ns), (500, 500));
    }
}
