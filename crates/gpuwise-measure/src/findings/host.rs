//! What the host did: rests, long calls, calls that waited for the device.

use super::{
    rule::Thresholds,
    rules::{first_use, idle, small_kernels},
    work::Ordered,
};
use crate::figures::{
    Classifier,
    intervals::Intervals,
    names::{HostPurpose, Remembered},
};
use gpuwise_domain::profile::timeline::{
    Detail, Direction, HostSpan, MemoryKind, NameId, Needed, Timeline, Work, WorkClass,
};
use std::collections::BTreeMap;

/// A rest is at least this many times the usual pause between operators.
const USUAL_RESTS: i64 = 20;
/// A copy of fewer bytes is not what takes the time of its call.
const LARGE_COPY: u64 = 1 << 20;
/// A call that returns within this of its copy's end waited for it.
const RETURNS_WITHIN: i64 = 20_000;
/// A call shorter than this has waited for nothing.
const SHORT_CALL: i64 = 15_000;

/// Why a call held the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It waits for the device by its purpose.
    Synchronisation,
    /// It copies large pageable memory.
    Pageable,
}

/// A call that held the host until the device was ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocking {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) name: NameId,
    pub(super) why: Wait,
    /// Index into the timeline's work of the copy that it waited for, where it is a call that copies.
    pub(super) copy: Option<u32>,
}

/// When the host did what; disjoint, the first that applies.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The profiler's own doing; nothing below is said of this time.
    pub(super) overhead: Intervals,
    /// What most of it is called.
    pub(super) overhead_name: Option<NameId>,
    pub(super) loader: Intervals,
    pub(super) loader_name: Option<NameId>,
    pub(super) blocking: Vec<Blocking>,
    pub(super) synchronisation: Intervals,
    pub(super) pageable: Intervals,
    pub(super) long_calls: Intervals,
    pub(super) rests: Intervals,
    /// All other time: the framework, Python, calls that launch.
    pub(super) framework: Intervals,
    /// From launch to launch where small kernels follow one another as fast as the host can launch: of this,
    /// one launch for all of them leaves nothing. Part of the framework's time.
    pub(super) launching: Intervals,
    /// Long calls by their start, for their names.
    long: Vec<(i64, i64, NameId)>,
}

impl Host {
    pub(super) fn new(
        timeline: &Timeline,
        ordered: &Ordered,
        names: &Classifier,
        limits: &Thresholds,
        step_ns: i64,
    ) -> Self {
        let mut purposes = Remembered::new(&timeline.names);
        let mut of = |span: &HostSpan| purposes.of(span.name, |name| names.host(name));
        let mut host = Self::default();
        host.profiler(timeline, names);
        let mut loader = Vec::new();
        let mut active = Vec::new();
        for span in timeline.annotations.iter().chain(&timeline.operators) {
            if of(span) == HostPurpose::Loader {
                loader.push((span.start_ns, span.end_ns));
                host.loader_name = Some(span.name);
            }
        }
        for span in &timeline.operators {
            let name = timeline.names.text(span.name);
            if !name.starts_with("ProfilerStep") && !name.starts_with("Optimizer.") {
                active.push((span.start_ns, span.end_ns));
            }
        }
        let copies = copies_by_call(timeline);
        let ended = ended_before(timeline, ordered);
        let long_call = limits.of(&first_use::CALL);
        let mut long = Vec::new();
        for (index, span) in timeline.calls.iter().enumerate() {
            active.push((span.start_ns, span.end_ns));
            let length = span.end_ns - span.start_ns;
            let purpose = of(span);
            let copy = copies.get(index).copied().flatten();
            let work = copy.and_then(|copy| timeline.work.get(copy as usize));
            let behind = copy.and_then(|copy| ended.get(&copy));
            let waits = wait(timeline, span, purpose, work.copied()).filter(|why| {
                // Behind nothing, a long call for a short copy takes the time itself.
                let idle = behind.is_some_and(|end| *end <= span.start_ns)
                    && work.is_some_and(|copy| (copy.end_ns - copy.start_ns) * 2 < length);
                let own = idle && length as f64 >= long_call;
                !own || *why == Wait::Pageable || purpose == HostPurpose::Synchronisation
            });
            if let Some(why) = waits {
                host.blocking.push(Blocking {
                    start: span.start_ns,
                    end: span.end_ns,
                    name: span.name,
                    why,
                    copy: copy.filter(|_| purpose != HostPurpose::Synchronisation),
                });
            } else if length as f64 >= long_call {
                long.push((span.start_ns, span.end_ns, span.name));
            }
        }
        host.blocking.sort_by_key(|call| (call.start, call.end));
        long.sort_unstable();
        host.loader = Intervals::union(loader.iter().copied()).without(&host.overhead);
        active.extend(loader);
        if !is_sample(timeline) {
            host.rests = rests(&Intervals::union(active), limits, step_ns).without(&host.overhead);
        }
        host.long = long;
        host.disjoint();
        host.framework = host.rest_of(timeline);
        host.launching = launching(timeline, ordered, limits).intersection(&host.framework);
        host
    }

    /// What the profiler did itself.
    fn profiler(&mut self, timeline: &Timeline, names: &Classifier) {
        let mut own = Remembered::new(&timeline.names);
        let spans = timeline
            .overhead
            .iter()
            .filter(|span| own.of(span.name, |name| names.is_profilers(name)));
        let mut ranges = Vec::new();
        let mut longest = 0;
        for span in spans {
            ranges.push((span.start_ns, span.end_ns));
            if span.end_ns - span.start_ns > longest {
                longest = span.end_ns - span.start_ns;
                self.overhead_name = Some(span.name);
            }
        }
        self.overhead = Intervals::union(ranges);
    }

    /// Each moment belongs to the first of loader, synchronisation, copies, long calls, rests.
    fn disjoint(&mut self) {
        let of = |why| {
            let calls = self.blocking.iter().filter(move |call| call.why == why);
            Intervals::union(calls.map(|call| (call.start, call.end))).without(&self.overhead)
        };
        self.synchronisation = of(Wait::Synchronisation).without(&self.loader);
        self.pageable = of(Wait::Pageable)
            .without(&self.loader)
            .without(&self.synchronisation);
        self.long_calls = Intervals::union(self.long.iter().map(|call| (call.0, call.1)))
            .without(&self.overhead)
            .without(&self.loader)
            .without(&self.synchronisation)
            .without(&self.pageable);
    }

    /// From the first call to the last, what none of the sets takes.
    fn rest_of(&self, timeline: &Timeline) -> Intervals {
        let first = timeline.calls.iter().map(|call| call.start_ns).min();
        let last = timeline.calls.iter().map(|call| call.end_ns).max();
        let all = Intervals::union(first.zip(last));
        let taken = [
            &self.overhead,
            &self.loader,
            &self.synchronisation,
            &self.pageable,
            &self.long_calls,
            &self.rests,
        ];
        taken.iter().fold(all, |left, set| left.without(set))
    }

    /// The long call that was under way at some moment of a range.
    pub(super) fn long_call(&self, start: i64, end: i64) -> Option<NameId> {
        let before = self.long.partition_point(|call| call.0 < end);
        let calls = self.long.get(..before)?;
        calls.iter().rev().find(|c| c.1 > start).map(|c| c.2)
    }
}

/// Whether the file holds a part of what happened alone: nothing says then that the host rested.
fn is_sample(timeline: &Timeline) -> bool {
    let mut lacks = timeline.lacks.iter();
    lacks.any(|lack| lack.needed == Needed::Events)
}

/// The copy that each call made, where it made one.
fn copies_by_call(timeline: &Timeline) -> Vec<Option<u32>> {
    let mut copies = vec![None; timeline.calls.len()];
    for (index, work) in (0..).zip(&timeline.work) {
        if work.class == WorkClass::Copy
            && let Some(copy) = work.call.get().and_then(|call| copies.get_mut(call))
        {
            *copy = Some(index);
        }
    }
    copies
}

/// See [`Host::launching`].
fn launching(timeline: &Timeline, ordered: &Ordered, limits: &Thresholds) -> Intervals {
    let (small, pace) = (
        limits.of(&small_kernels::SMALL),
        limits.of(&small_kernels::PACE),
    );
    let mut paced = Vec::new();
    let mut previous: Option<i64> = None;
    for &(start, end, index) in &ordered.pieces {
        let work = timeline.work.get(index as usize);
        let Some((work, call)) = work.and_then(|work| Some((work, timeline.call_of(work)?))) else {
            continue;
        };
        let small = work.class == WorkClass::Kernel && ((end - start) as f64) < small;
        let interval = previous.map_or(0, |previous| call.start_ns - previous);
        if small && interval > 0 && interval as f64 <= pace {
            paced.push((call.start_ns - interval, call.start_ns));
        }
        previous = Some(call.start_ns);
    }
    Intervals::union(paced)
}

/// When the work before each copy on its stream had ended.
fn ended_before(timeline: &Timeline, ordered: &Ordered) -> BTreeMap<u32, i64> {
    let mut last = vec![i64::MIN; timeline.streams.len()];
    let mut ended = BTreeMap::new();
    for &(_, end, index) in &ordered.pieces {
        let Some(work) = timeline.work.get(index as usize) else {
            continue;
        };
        if let Some(before) = last.get_mut(work.stream as usize) {
            if work.class == WorkClass::Copy {
                ended.insert(index, *before);
            }
            *before = end.max(*before);
        }
    }
    ended
}

/// Whether a call held the host until the device was ready, and why.
fn wait(
    timeline: &Timeline,
    span: &HostSpan,
    purpose: HostPurpose,
    copy: Option<Work>,
) -> Option<Wait> {
    if purpose == HostPurpose::Synchronisation {
        return Some(Wait::Synchronisation);
    }
    let copy = copy?;
    let length = span.end_ns - span.start_ns;
    // One that goes on long after its copy has ended does something else.
    let waited = length >= SHORT_CALL
        && span.end_ns >= copy.end_ns - RETURNS_WITHIN
        && (span.end_ns - copy.end_ns) * 2 <= length.max(RETURNS_WITHIN)
        && span.start_ns <= copy.start_ns;
    if !waited {
        return None;
    }
    let shape = match timeline.detail_of(&copy) {
        Some(Detail::Copy(shape)) => *shape,
        _ => return Some(Wait::Synchronisation),
    };
    let pageable = shape.source == MemoryKind::Pageable || shape.target == MemoryKind::Pageable;
    let large = shape.bytes.unwrap_or(0) >= LARGE_COPY;
    Some(
        if pageable && large && shape.direction != Some(Direction::DeviceToDevice) {
            Wait::Pageable
        } else {
            Wait::Synchronisation
        },
    )
}

/// Times in which the host ran nothing for unusually long.
fn rests(active: &Intervals, limits: &Thresholds, step_ns: i64) -> Intervals {
    let pairs = active.ranges().windows(2);
    let pauses: Vec<(i64, i64)> = pairs
        .filter_map(|pair| match pair {
            [before, after] => Some((before.1, after.0)),
            _ => None,
        })
        .collect();
    let mut lengths: Vec<i64> = pauses.iter().map(|pause| pause.1 - pause.0).collect();
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let least = (limits.of(&idle::REST) as i64)
        .max(usual.saturating_mul(USUAL_RESTS))
        .max((limits.of(&idle::REST_SHARE) * step_ns as f64) as i64);
    Intervals::union(
        pauses
            .into_iter()
            .filter(|pause| pause.1 - pause.0 >= least),
    )
}
