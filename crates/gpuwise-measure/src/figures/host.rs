//! When the host did what, and how much of it.

use super::{
    intervals::Intervals,
    names::{Classifier, HostPurpose, Remembered},
};
use gpuwise_domain::profile::{
    figures::{CallGroup, HostFigures, LoaderFigures},
    timeline::{HostSpan, Timeline},
};
use std::cmp::Reverse;

/// When the host fetched data, waited for devices and copied; disjoint, the first that applies.
#[derive(Debug, Clone, Default)]
pub(super) struct HostTimes {
    /// Under a data loader's range.
    pub(super) loader: Intervals,
    /// How many such ranges there are.
    pub(super) loader_count: u64,
    /// In a call that waits for the device.
    pub(super) synchronisation: Intervals,
    /// In a call that copies or fills.
    pub(super) copy_calls: Intervals,
    /// The profiler was busy with itself.
    pub(super) overhead: Intervals,
    /// Whether work of the forward pass is run again.
    pub(super) recomputes: bool,
}

impl HostTimes {
    pub(super) fn new(timeline: &Timeline, names: &Classifier) -> Self {
        let mut purposes = Remembered::new(&timeline.names);
        let mut of = |span: &HostSpan| purposes.of(span.name, |name| names.host(name));
        let mut loader = Vec::new();
        let mut recomputes = false;
        let (mut waits, mut copies) = (Vec::new(), Vec::new());
        for span in timeline.annotations.iter().chain(&timeline.operators) {
            match of(span) {
                HostPurpose::Loader => loader.push((span.start_ns, span.end_ns)),
                HostPurpose::Recomputation => recomputes = true,
                _ => {}
            }
        }
        for span in &timeline.calls {
            match of(span) {
                HostPurpose::Synchronisation => waits.push((span.start_ns, span.end_ns)),
                HostPurpose::CopyCall => copies.push((span.start_ns, span.end_ns)),
                _ => {}
            }
        }
        let mut own = Remembered::new(&timeline.names);
        let overhead = timeline.overhead.iter();
        let overhead = overhead.filter(|span| own.of(span.name, |name| names.is_profilers(name)));
        let overhead = Intervals::union(overhead.map(|span| (span.start_ns, span.end_ns)));
        let loader_count = loader.len() as u64;
        let loader = Intervals::union(loader);
        let synchronisation = Intervals::union(waits).without(&loader);
        let copy_calls = Intervals::union(copies)
            .without(&loader)
            .without(&synchronisation);
        Self {
            loader,
            loader_count,
            synchronisation,
            copy_calls,
            overhead,
            recomputes,
        }
    }
}

/// Figures of the host; `steps` is when there were steps, where they are marked.
pub(super) fn figures(
    timeline: &Timeline,
    times: &HostTimes,
    steps: Option<&Intervals>,
    names: &Classifier,
) -> HostFigures {
    let mut calls: Vec<Option<CallGroup>> = vec![None; timeline.names.len()];
    for span in &timeline.calls {
        let Some(group) = calls.get_mut(span.name.0 as usize) else {
            continue;
        };
        let group = group.get_or_insert_with(|| CallGroup {
            name: timeline.names.text(span.name).to_owned(),
            ..CallGroup::default()
        });
        let duration = span.end_ns.saturating_sub(span.start_ns);
        group.count += 1;
        group.sum_ns = group.sum_ns.saturating_add(duration);
        group.max_ns = group.max_ns.max(duration);
        group.in_steps += u64::from(steps.is_some_and(|steps| steps.holds(span.start_ns)));
    }
    let mut calls: Vec<CallGroup> = calls.into_iter().flatten().collect();
    calls.sort_by_key(|group| Reverse(group.sum_ns));
    let of = |purpose: HostPurpose| {
        calls
            .iter()
            .filter(move |group| names.host(&group.name) == purpose)
    };
    HostFigures {
        launches: together("launches", of(HostPurpose::Launch)),
        synchronisations: of(HostPurpose::Synchronisation).cloned().collect(),
        loader: (times.loader_count > 0).then(|| LoaderFigures {
            count: times.loader_count,
            wait_ns: times.loader.length(),
            in_steps_ns: steps.map(|steps| times.loader.overlap(steps)),
        }),
        overhead_ns: times.overhead.length(),
        calls,
    }
}

fn together<'a>(name: &str, groups: impl Iterator<Item = &'a CallGroup>) -> CallGroup {
    groups.fold(
        CallGroup {
            name: name.to_owned(),
            ..CallGroup::default()
        },
        |sum, group| CallGroup {
            name: sum.name,
            count: sum.count + group.count,
            sum_ns: sum.sum_ns.saturating_add(group.sum_ns),
            max_ns: sum.max_ns.max(group.max_ns),
            in_steps: sum.in_steps + group.in_steps,
        },
    )
}
