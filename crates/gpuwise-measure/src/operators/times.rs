//! Kernel time by operator and by kernel, over calls and over steps: few rows that are kept of a run.

use super::moments::Moments;
use crate::figures::Settings;
use gpuwise_domain::profile::{
    figures::{NamedTime, RankFigures, StepKind, StepTime, TimedBy},
    timeline::{Timeline, Work, WorkClass},
};
use rustc_hash::FxHashMap;
use std::{cmp::Reverse, collections::BTreeMap};

/// Names that have a row of their own, of operators and of kernels each.
const MOST_NAMES: usize = 49;

/// Sums of one name.
#[derive(Debug, Clone, Default)]
struct Sum {
    ns: i64,
    calls: Moments,
    steps: Moments,
}

/// Sums by name over files, one after the other.
#[derive(Debug, Default)]
pub struct Times {
    operators: BTreeMap<String, Sum>,
    kernels: BTreeMap<String, Sum>,
    step_count: u64,
    /// What steps are; those of files in which they are another thing are not counted.
    kind: Option<StepKind>,
}

/// Steps of one file: from when to when, in order, on the host or, repeats, on the device.
struct Steps {
    kind: StepKind,
    spans: Vec<(i64, i64)>,
}

impl Steps {
    /// Those that are marked, or else repeats; whole ones alone.
    fn of(figures: &RankFigures, settings: &Settings<'_>) -> Option<Self> {
        let (kind, mut spans) = match (&figures.steps, &figures.sequence) {
            (Some(steps), _) => {
                let steps = steps.steps.iter();
                let spans = steps.map(|step| (step.start_ns, step.end_ns)).collect();
                (StepKind::Step, spans)
            }
            (None, Some(sequence)) => (StepKind::Repeat, sequence.repeats.clone()),
            (None, None) => return None,
        };
        // Half a step is no sample of one.
        spans.retain(|(from, to)| settings.holds_time(*from) && settings.holds_time(*to));
        Some(Self { kind, spans })
    }

    /// The step that launched a piece of work: devices lag behind the host. Where the launch is not
    /// known, the step in which it ran.
    fn holding(&self, timeline: &Timeline, work: &Work) -> Option<usize> {
        let call = timeline
            .call_of(work)
            .or_else(|| timeline.operator_of(work));
        let at = match (self.kind, call) {
            (StepKind::Step, Some(call)) => call.start_ns,
            _ => work.start_ns,
        };
        let after = self.spans.partition_point(|(from, _)| *from <= at);
        let place = after.checked_sub(1)?;
        self.spans
            .get(place)
            .filter(|(_, to)| at < *to)
            .map(|_| place)
    }
}

/// A launch: kernels of one call of an operator are one; others are each their own.
type Launch = (u32, Option<usize>);

impl Times {
    /// Adds what a file's devices did.
    pub fn add(&mut self, timeline: &Timeline, settings: &Settings<'_>, figures: &RankFigures) {
        let steps = Steps::of(figures, settings)
            .filter(|steps| *self.kind.get_or_insert(steps.kind) == steps.kind);
        self.step_count += steps.as_ref().map_or(0, |steps| steps.spans.len() as u64);
        let steps = steps.as_ref();
        let kernels: Vec<(usize, &Work)> = timeline
            .work
            .iter()
            .enumerate()
            .filter(|(_, work)| work.class == WorkClass::Kernel && settings.holds(timeline, work))
            .collect();
        let operator = |place: usize, work: &Work| {
            if let Some(name) = super::origins::name(timeline, place) {
                return (name.0, None);
            }
            match timeline.operator_of(work) {
                Some(operator) => (operator.name.0, work.operator.get()),
                None => (work.name.0, None),
            }
        };
        let kernel = |_: usize, work: &Work| (work.name.0, None);
        sum(timeline, steps, &kernels, operator, &mut self.operators);
        sum(timeline, steps, &kernels, kernel, &mut self.kernels);
    }

    /// The rows: of each kind the names that take most, and one of all others, where there are any.
    pub fn rows(self) -> Vec<NamedTime> {
        let kind = self.kind.filter(|_| self.step_count >= 2);
        let steps = kind.map(|kind| (kind, self.step_count));
        let mut rows = Vec::new();
        for (by, sums) in [
            (TimedBy::Operator, self.operators),
            (TimedBy::Kernel, self.kernels),
        ] {
            let mut sums: Vec<(String, Sum)> = sums.into_iter().collect();
            sums.sort_by_key(|(_, sum)| Reverse(sum.ns));
            let others = sums.split_off(sums.len().min(MOST_NAMES));
            let row = |name, sum: &Sum| NamedTime {
                by,
                name,
                calls: sum.calls.count(),
                sum_ns: sum.ns,
                call_variance: sum.calls.variance(),
                steps: steps.map(|steps| of_steps(sum.steps, steps)),
            };
            rows.extend(sums.iter().map(|(name, sum)| row(Some(name.clone()), sum)));
            if !others.is_empty() {
                rows.push(rest(by, others.iter().map(|(_, sum)| sum), steps));
            }
        }
        rows
    }
}

/// Over so many steps: in those in which a name was not, it took no time.
fn of_steps(mut steps: Moments, (kind, count): (StepKind, u64)) -> StepTime {
    steps.add_zeros(count.saturating_sub(steps.count()));
    StepTime {
        kind,
        count,
        mean_ns: steps.mean(),
        variance: steps.variance().unwrap_or(0.0),
    }
}

/// All other names. How their steps and calls differ together is not kept by name: they are taken as
/// independent of one another.
fn rest<'s>(
    by: TimedBy,
    sums: impl Iterator<Item = &'s Sum>,
    steps: Option<(StepKind, u64)>,
) -> NamedTime {
    let mut row = NamedTime {
        by,
        name: None,
        calls: 0,
        sum_ns: 0,
        call_variance: None,
        steps: steps.map(|(kind, count)| StepTime {
            kind,
            count,
            mean_ns: 0.0,
            variance: 0.0,
        }),
    };
    let mut calls = Moments::default();
    for sum in sums {
        row.calls += sum.calls.count();
        row.sum_ns = row.sum_ns.saturating_add(sum.ns);
        calls.merge(sum.calls);
        if let (Some(all), Some(steps)) = (&mut row.steps, steps) {
            let one = of_steps(sum.steps, steps);
            all.mean_ns += one.mean_ns;
            all.variance += one.variance;
        }
    }
    row.call_variance = calls.variance();
    row
}

/// Sums kernels by the name of their launch.
fn sum(
    timeline: &Timeline,
    steps: Option<&Steps>,
    kernels: &[(usize, &Work)],
    launch: impl Fn(usize, &Work) -> Launch,
    sums: &mut BTreeMap<String, Sum>,
) {
    let mut of_file: FxHashMap<u32, Sum> = FxHashMap::default();
    let mut launches: FxHashMap<Launch, i64> = FxHashMap::default();
    let mut in_steps: FxHashMap<(u32, usize), i64> = FxHashMap::default();
    for (place, work) in kernels {
        let ns = work.end_ns.saturating_sub(work.start_ns);
        let (name, call) = launch(*place, work);
        let sum = of_file.entry(name).or_default();
        sum.ns = sum.ns.saturating_add(ns);
        match call {
            Some(_) => *launches.entry((name, call)).or_default() += ns,
            None => sum.calls.add(ns as f64),
        }
        if let Some(step) = steps.and_then(|steps| steps.holding(timeline, work)) {
            *in_steps.entry((name, step)).or_default() += ns;
        }
    }
    // In order, so that sums of reals are the same each time.
    for ((name, _), ns) in ordered(launches) {
        of_file.entry(name).or_default().calls.add(ns as f64);
    }
    for ((name, _), ns) in ordered(in_steps) {
        of_file.entry(name).or_default().steps.add(ns as f64);
    }
    let names = &timeline.names;
    for (name, sum) in ordered(of_file) {
        let text = names.text(gpuwise_domain::profile::timeline::NameId(name));
        let all = sums.entry(text.to_owned()).or_default();
        all.ns = all.ns.saturating_add(sum.ns);
        all.calls.merge(sum.calls);
        all.steps.merge(sum.steps);
    }
}

fn ordered<K: Ord, V>(map: FxHashMap<K, V>) -> BTreeMap<K, V> {
    map.into_iter().collect()
}
