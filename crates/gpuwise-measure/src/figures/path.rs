//! The critical path: the chain of work and waiting that the length of a profile is made of.
//!
//! Walked from the last end back to the first start. A piece of GPU work began when its launch was
//! there and what it had to wait for had ended: the piece before it on its stream, or one of another
//! stream that ended in between. A host thread goes on from call to call; where it waited for the
//! device, the path goes on with the work that ended meanwhile.

use super::{
    Settings,
    host::HostTimes,
    intervals::Intervals,
    names::{HostPurpose, Remembered, is_memory},
    ordered::{Ordered, Piece},
};
use gpuwise_domain::profile::{
    figures::{CriticalPath, PathCause, PathSegment},
    timeline::{HostSpan, Timeline},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// What is needed to find predecessors.
struct Walk<'a> {
    timeline: &'a Timeline,
    pieces: &'a [Piece],
    /// For each piece the one before it on its stream.
    before: Vec<Option<u32>>,
    /// Places of pieces in order of their ends.
    by_end: Vec<u32>,
    /// Of each thread its calls that wait for the device, in order of their ends.
    waits: BTreeMap<u32, Vec<HostSpan>>,
    host: &'a HostTimes,
    calls: Intervals,
    start: i64,
    segments: Vec<PathSegment>,
}

/// Where the path is.
#[derive(Clone, Copy)]
enum At {
    /// At the end of a piece, by its place.
    Piece(u32),
    /// On a host thread.
    Host(u32),
}

/// The critical path through the work of `ordered`.
pub(super) fn of(
    timeline: &Timeline,
    ordered: &Ordered,
    host: &HostTimes,
    settings: &Settings<'_>,
) -> Option<CriticalPath> {
    let pieces = &ordered.pieces;
    let start = ordered
        .asked
        .map_or(pieces.first()?.start, |window| window.start_ns);
    let mut walk = Walk {
        timeline,
        pieces,
        before: before(timeline, pieces),
        by_end: by_end(pieces),
        waits: waits(timeline, settings),
        host,
        calls: Intervals::union(
            timeline
                .calls
                .iter()
                .map(|call| (call.start_ns, call.end_ns)),
        ),
        start,
        segments: Vec::new(),
    };
    walk.run();
    let mut segments = walk.segments;
    segments.reverse();
    let mut sums: BTreeMap<PathCause, i64> = BTreeMap::new();
    for segment in &segments {
        *sums.entry(segment.cause).or_default() += segment.end_ns - segment.start_ns;
    }
    let mut by_cause: Vec<(PathCause, i64)> = sums.into_iter().collect();
    by_cause.sort_by_key(|(_, ns)| Reverse(*ns));
    Some(CriticalPath { segments, by_cause })
}

fn before(timeline: &Timeline, pieces: &[Piece]) -> Vec<Option<u32>> {
    let mut last: Vec<Option<u32>> = vec![None; timeline.streams.len()];
    (0..)
        .zip(pieces)
        .map(|(place, piece)| {
            let stream = piece.work(timeline)?.stream as usize;
            last.get_mut(stream)?.replace(place)
        })
        .collect()
}

fn by_end(pieces: &[Piece]) -> Vec<u32> {
    let mut places: Vec<u32> = (0..).zip(pieces).map(|(place, _)| place).collect();
    places.sort_by_key(|place| pieces.get(*place as usize).map_or(0, |piece| piece.end));
    places
}

/// Calls that wait for the device; a call that copies may, and leads back to its copy.
fn waits(timeline: &Timeline, settings: &Settings<'_>) -> BTreeMap<u32, Vec<HostSpan>> {
    let mut purposes = Remembered::new(&timeline.names);
    let mut waits: BTreeMap<u32, Vec<HostSpan>> = BTreeMap::new();
    for call in &timeline.calls {
        let purpose = purposes.of(call.name, |name| settings.names.host(name));
        if matches!(
            purpose,
            HostPurpose::Synchronisation | HostPurpose::CopyCall
        ) {
            waits.entry(call.thread).or_default().push(*call);
        }
    }
    for calls in waits.values_mut() {
        calls.sort_by_key(|call| call.end_ns);
    }
    waits
}

impl<'a> Walk<'a> {
    fn run(&mut self) {
        let Some(&last) = self.by_end.last() else {
            return;
        };
        let mut at = At::Piece(last);
        let mut time = self.piece(last).map_or(self.start, |piece| piece.end);
        // Every turn goes back in time or from the host to an earlier piece; the bound is for
        // timelines whose calls and work contradict one another.
        for _ in 0..self.pieces.len().saturating_mul(4).saturating_add(64) {
            if time <= self.start {
                return;
            }
            let next = match at {
                At::Piece(place) => self.back_from_piece(place, &mut time),
                At::Host(thread) => Some(self.back_from_host(thread, &mut time)),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        self.add(self.start, &mut time, PathCause::Unknown, None);
    }

    fn piece(&self, place: u32) -> Option<&'a Piece> {
        self.pieces.get(place as usize)
    }

    /// Adds what lies between a moment and where the path is, and goes there.
    fn add(&mut self, from: i64, time: &mut i64, cause: PathCause, work: Option<u32>) {
        let from = from.max(self.start);
        if from < *time {
            self.segments.push(PathSegment {
                start_ns: from,
                end_ns: *time,
                cause,
                work,
            });
            *time = from;
        }
    }

    fn back_from_piece(&mut self, place: u32, time: &mut i64) -> Option<At> {
        let piece = *self.piece(place)?;
        let cause = if is_memory(piece.traits.kind) {
            PathCause::Memory
        } else if piece.traits.communication {
            PathCause::Communication
        } else {
            PathCause::Computation
        };
        self.add(piece.start, time, cause, Some(piece.index));
        let work = piece.work(self.timeline)?;
        let call = self.timeline.call_of(work).copied();
        let own = self.before.get(place as usize).copied().flatten();
        let own_end = own.and_then(|own| self.piece(own)).map(|own| own.end);
        // What ended last before it began, on any stream, after it was launched.
        let launched = call.map_or(i64::MIN, |call| call.start_ns);
        let ended = self.ended_by(piece.start).filter(|ended| *ended != place);
        let ended_at = ended
            .and_then(|ended| self.piece(ended))
            .map(|ended| ended.end);
        let waited = match (own_end, ended_at) {
            (Some(own_end), _) if own_end > launched && own_end >= piece.start.min(*time) => own,
            (_, Some(ended_at)) if ended_at > launched => ended,
            (Some(own_end), _) if own_end > launched => own,
            _ => None,
        };
        if let Some(earlier) = waited {
            let end = self.piece(earlier)?.end.min(*time);
            self.add(end, time, PathCause::Launch, None);
            return Some(At::Piece(earlier));
        }
        let call = call?;
        self.add(call.end_ns, time, PathCause::Launch, None);
        self.add(call.start_ns, time, PathCause::Call, None);
        Some(At::Host(call.thread))
    }

    /// The piece that ended last at or before a moment.
    fn ended_by(&self, moment: i64) -> Option<u32> {
        let after = self
            .by_end
            .partition_point(|place| self.piece(*place).is_some_and(|piece| piece.end <= moment));
        self.by_end.get(after.checked_sub(1)?).copied()
    }

    fn back_from_host(&mut self, thread: u32, time: &mut i64) -> At {
        let waits = self.waits.get(&thread);
        let wait = waits.and_then(|waits| {
            let after = waits.partition_point(|call| call.end_ns <= *time);
            waits.get(after.checked_sub(1)?).copied()
        });
        let Some(wait) = wait.filter(|wait| wait.end_ns > self.start) else {
            self.host_work(self.start, time);
            return At::Host(thread);
        };
        self.host_work(wait.end_ns, time);
        let ended = self.ended_by(*time);
        let end = ended
            .and_then(|ended| self.piece(ended))
            .map(|piece| piece.end);
        match (ended, end) {
            (Some(ended), Some(end)) if end > wait.start_ns => {
                self.add(end, time, PathCause::Synchronisation, None);
                At::Piece(ended)
            }
            _ => {
                self.add(wait.start_ns, time, PathCause::Call, None);
                if wait.start_ns == wait.end_ns {
                    // A call without length would be found again.
                    self.add(*time - 1, time, PathCause::Call, None);
                }
                At::Host(thread)
            }
        }
    }

    /// Adds what the host did from a moment on: data loading, calls, the framework.
    fn host_work(&mut self, from: i64, time: &mut i64) {
        let from = from.max(self.start);
        if from >= *time {
            return;
        }
        let span = Intervals::union([(from, *time)]);
        let loader = self.host.loader.within(from, *time);
        let calls = self.calls.within(from, *time).without(&loader);
        let mut parts: Vec<(i64, i64, PathCause)> = Vec::new();
        for (set, cause) in [
            (&loader, PathCause::Loader),
            (&calls, PathCause::Call),
            (&span.without(&loader).without(&calls), PathCause::Framework),
        ] {
            let ranges = set.ranges().iter();
            parts.extend(ranges.map(|(start, end)| (*start, *end, cause)));
        }
        parts.sort_by_key(|(start, ..)| Reverse(*start));
        for (start, _, cause) in parts {
            self.add(start, time, cause, None);
        }
    }
}
