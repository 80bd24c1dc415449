//! Why nothing ran: the idle time of a device in parts that sum to it.

use super::{host::HostTimes, intervals::Intervals, ordered::Piece};
use gpuwise_domain::profile::{
    figures::{Gap, GapPart, HostWaitCauses, IdleSplit, Window},
    timeline::{HostSpan, Timeline},
};

/// A launched piece that begins within this is waited for as usual; the time a launch takes to
/// reach an idle device is a few microseconds.
const KERNEL_WAIT_NS: i64 = 10_000;
/// How many of the longest gaps are kept.
const LONGEST: usize = 48;

/// The parts of one gap.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    host_wait: i64,
    in_call: i64,
    kernel_wait: i64,
    other: i64,
    unlinked: i64,
}

/// Splits the idle time of a window, and says when it waited for the host. `pieces` are in order of
/// start, `busy` is their union.
pub(super) fn split(
    timeline: &Timeline,
    pieces: &[Piece],
    busy: &Intervals,
    window: Window,
    host: &HostTimes,
) -> (IdleSplit, Intervals) {
    let mut found = IdleSplit::default();
    let mut waits = Intervals::default();
    let (mut gaps, end_of_last) = apart(timeline, pieces, busy, window);
    for (gap, parts) in &gaps {
        if parts.host_wait > 0 {
            waits.extend(gap.start_ns, gap.start_ns + parts.host_wait);
        }
        found.host_wait_ns += parts.host_wait;
        found.in_call_ns += parts.in_call;
        found.kernel_wait_ns += parts.kernel_wait;
        found.other_ns += parts.other;
        found.unlinked_ns += parts.unlinked;
    }
    found.gap_count = gaps.len() as u64;
    if window.end_ns > end_of_last {
        found.edge_ns = window.end_ns - end_of_last;
        found.gap_count += 1;
    }
    found.causes = causes(&waits, host);
    for (gap, _) in &mut gaps {
        gap.overhead_ns = host.overhead.overlap_range(gap.start_ns, gap.end_ns);
        found.overhead_ns += gap.overhead_ns;
    }
    found.longest = longest(gaps, host);
    if found.edge_ns > 0 {
        let overhead_ns = host.overhead.overlap_range(end_of_last, window.end_ns);
        found.overhead_ns += overhead_ns;
        found.longest.push(Gap {
            start_ns: end_of_last,
            end_ns: window.end_ns,
            overhead_ns,
            part: GapPart::Edge,
            next: None,
        });
        by_length(&mut found.longest);
    }
    (found, waits)
}

/// Every gap in order of time, with the part that most of it is.
pub(super) fn every(
    timeline: &Timeline,
    pieces: &[Piece],
    busy: &Intervals,
    window: Window,
    host: &HostTimes,
) -> Vec<Gap> {
    let (gaps, _) = apart(timeline, pieces, busy, window);
    gaps.into_iter()
        .map(|(mut gap, parts)| {
            gap.overhead_ns = host.overhead.overlap_range(gap.start_ns, gap.end_ns);
            gap.part = most(&gap, parts, host);
            gap
        })
        .collect()
}

/// Gaps with their parts in order of time, and the end of the last work.
fn apart(
    timeline: &Timeline,
    pieces: &[Piece],
    busy: &Intervals,
    window: Window,
) -> (Vec<(Gap, Parts)>, i64) {
    let mut gaps = Vec::new();
    let mut end_of_last = window.start_ns;
    let mut next = 0;
    for &(start, end) in busy.ranges() {
        if start > end_of_last {
            next += pieces
                .get(next..)
                .map_or(0, |rest| rest.partition_point(|piece| piece.start < start));
            let (index, call) = launched(timeline, pieces, next, start);
            gaps.push((
                Gap {
                    start_ns: end_of_last,
                    end_ns: start,
                    overhead_ns: 0,
                    part: GapPart::Framework,
                    next: index,
                },
                parts(end_of_last, start, call),
            ));
        }
        end_of_last = end_of_last.max(end);
    }
    (gaps, end_of_last)
}

/// What came next at `start`, and the call that launched it: of several that began at once the one
/// that was launched first.
fn launched<'a>(
    timeline: &'a Timeline,
    pieces: &[Piece],
    next: usize,
    start: i64,
) -> (Option<u32>, Option<&'a HostSpan>) {
    let at_once = pieces
        .iter()
        .skip(next)
        .take_while(|piece| piece.start == start);
    let mut first = None;
    let mut linked: Option<(u32, &HostSpan)> = None;
    for piece in at_once {
        first = first.or(Some(piece.index));
        let call = piece.work(timeline).and_then(|work| timeline.call_of(work));
        if let Some(call) = call
            && linked.is_none_or(|(_, known)| call.start_ns < known.start_ns)
        {
            linked = Some((piece.index, call));
        }
    }
    match linked {
        Some((index, call)) => (Some(index), Some(call)),
        None => (first, None),
    }
}

/// Splits the gap from `start` to `end`, which is longer than nothing.
fn parts(start: i64, end: i64, call: Option<&HostSpan>) -> Parts {
    let mut parts = Parts::default();
    let Some(call) = call else {
        parts.unlinked = end - start;
        return parts;
    };
    let begun = call.start_ns.clamp(start, end);
    let returned = call.end_ns.clamp(begun, end);
    parts.host_wait = begun - start;
    parts.in_call = returned - begun;
    let rest = end - returned;
    if rest <= KERNEL_WAIT_NS {
        parts.kernel_wait = rest;
    } else {
        parts.other = rest;
    }
    parts
}

fn causes(waits: &Intervals, host: &HostTimes) -> HostWaitCauses {
    let (loader_ns, synchronisation_ns, copy_calls_ns) = (
        waits.overlap(&host.loader),
        waits.overlap(&host.synchronisation),
        waits.overlap(&host.copy_calls),
    );
    HostWaitCauses {
        loader_ns,
        synchronisation_ns,
        copy_calls_ns,
        framework_ns: waits.length() - loader_ns - synchronisation_ns - copy_calls_ns,
    }
}

/// The longest gaps with what most of each is.
fn longest(mut gaps: Vec<(Gap, Parts)>, host: &HostTimes) -> Vec<Gap> {
    let length = Gap::length_ns;
    if gaps.len() > LONGEST {
        gaps.select_nth_unstable_by_key(LONGEST, |(gap, _)| {
            (std::cmp::Reverse(length(gap)), gap.start_ns)
        });
        gaps.truncate(LONGEST);
    }
    let mut gaps: Vec<Gap> = gaps
        .into_iter()
        .map(|(gap, parts)| Gap {
            part: most(&gap, parts, host),
            ..gap
        })
        .collect();
    by_length(&mut gaps);
    gaps
}

fn by_length(gaps: &mut [Gap]) {
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length_ns()), gap.start_ns));
}

fn most(gap: &Gap, parts: Parts, host: &HostTimes) -> GapPart {
    if gap.overhead_ns > gap.length_ns() {
        return GapPart::Overhead;
    }
    let waited = (gap.start_ns, gap.start_ns + parts.host_wait);
    let under = |times: &Intervals| times.overlap_range(waited.0, waited.1);
    let (loader, waiting, copying) = (
        under(&host.loader),
        under(&host.synchronisation),
        under(&host.copy_calls),
    );
    let all = [
        (loader, GapPart::Loader),
        (waiting, GapPart::Synchronisation),
        (copying, GapPart::CopyCall),
        (
            parts.host_wait - loader - waiting - copying,
            GapPart::Framework,
        ),
        (parts.in_call, GapPart::InCall),
        (parts.kernel_wait, GapPart::KernelWait),
        (parts.other, GapPart::Other),
        (parts.unlinked, GapPart::Unlinked),
    ];
    let mut best = all[0];
    for part in all {
        if part.0 > best.0 {
            best = part;
        }
    }
    best.1
}
