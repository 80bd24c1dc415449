//! A rank played again without a cause: what a fix would gain, where what it takes away may have hidden
//! behind something else.
//!
//! The host is one line of time: what is taken from it moves all that follows. A call that waited for the
//! device waits again. A piece of work begins after its launch, after the work before it on its stream,
//! and after work of another stream that it followed closely, or in the tail of a kernel that had filled
//! the device; where a gap on a stream has no reason in the trace, it stays. Without a change every piece
//! lies where it lay.

use super::{
    host::{Blocking, Wait},
    ledger::{Gained, Removed},
    rule::Rank,
};
use crate::figures::intervals::Intervals;
use gpuwise_domain::profile::timeline::{HostSpan, WorkClass};

/// Work that begins this soon after the end of another stream's work is taken to have waited for it.
const CLOSE_NS: i64 = 15_000;
/// So does work that waited this many times as long as it began after that end: what is left is the way
/// of the event between streams.
const TIMES: i64 = 10;
/// So many ends are looked at.
const ENDS: usize = 64;
/// Work that follows the work before it on its stream within this waited for nothing else.
const FOLLOWS_NS: i64 = 5_000;
/// Work that begins later after its launch waited for something else.
const LONGEST_WAY_NS: i64 = 100_000;
/// What a call that waits for the device takes where it has nothing to wait for.
const CALL_NS: i64 = 4_000;
/// The way from a launching call to an idle device.
const LAUNCH_NS: i64 = 4_000;
/// Between two kernels of a stream that are both launched.
pub(super) const BETWEEN_NS: i64 = 1_000;

/// What a piece was seen to wait for.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// An instant of the host, in its launching call or at its return, and so much after it.
    Launch(i64, i64),
    /// The piece before it on its stream, after so much.
    Stream(i64),
    /// A piece of another stream, after so much.
    Other(u32, i64),
    /// Its instant on the host's clock: nothing in the trace launched it.
    Host,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    start: i64,
    end: i64,
    /// When its launching call began.
    launched: Option<i64>,
    before: Option<u32>,
    bound: Bound,
    /// From when on everything that it waits for is known.
    key: i64,
}

/// A call that waits, and the piece that it was seen to wait for.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    call: Blocking,
    piece: Option<u32>,
    /// Most of it was a wait for other ranks: without it the collective would take as much longer.
    for_others: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    // What is launched when a call returns comes after it.
    Wait(u32),
    Piece(u32),
}

/// What happened in a rank, ready to be played again.
pub(super) struct Replay {
    pieces: Vec<Piece>,
    waits: Vec<Waiting>,
    /// In the order in which it is played.
    events: Vec<(i64, Event)>,
    span: i64,
}

/// Host time that goes with a cause.
#[derive(Clone, Copy)]
pub(super) enum Whole<'h> {
    /// That of the gaps that were charged; of causes that wait, at most.
    Charged,
    /// All of this.
    Always(&'h Intervals),
    /// That of the gaps at least, all of this at most.
    AtMost(&'h Intervals),
}

/// What is taken away.
struct Change<'c> {
    host: &'c Intervals,
    /// For each piece, by how much it is shorter.
    shorter: &'c [i64],
    /// Calls that no longer wait, and whether those go on that waited for other ranks.
    unwaiting: Option<Wait>,
    others_wait: bool,
}

impl Change<'_> {
    fn waits(&self, wait: &Waiting) -> bool {
        self.unwaiting != Some(wait.call.why) || self.others_wait && wait.for_others
    }
}

impl Replay {
    pub(super) fn new(rank: &Rank<'_>) -> Self {
        let pieces = pieces(rank);
        let mut by_end: Vec<(i64, u32)> = (0..)
            .zip(&pieces)
            .map(|(place, piece)| (piece.end, place))
            .collect();
        by_end.sort_unstable();
        let mut by_work: Vec<(u32, u32)> = (0..)
            .zip(&rank.ordered.pieces)
            .map(|(place, piece)| (piece.2, place))
            .collect();
        by_work.sort_unstable();
        let calls = rank.host.blocking.iter();
        let waits: Vec<Waiting> = calls
            .map(|&call| {
                let others = &rank.ordered.only_communicating;
                Waiting {
                    call,
                    piece: waited_for(&call, &by_end, &by_work),
                    for_others: others.overlap_range(call.start, call.end) * 2
                        >= call.end - call.start,
                }
            })
            .collect();
        let of_pieces = (0..).zip(&pieces);
        let mut events: Vec<(i64, Event)> = of_pieces
            .map(|(place, piece)| (piece.key, Event::Piece(place)))
            .collect();
        let of_waits = (0..).zip(&waits);
        events.extend(of_waits.map(|(place, wait)| (wait.call.end, Event::Wait(place))));
        events.sort_unstable();
        Self {
            pieces,
            waits,
            events,
            span: rank.ordered.span(),
        }
    }

    /// What is gained without what was charged to a cause. `whole` is all host time that it took, gaps or
    /// not; `waits` are calls that wait no more.
    pub(super) fn gained(
        &self,
        removed: &Removed,
        whole: Whole<'_>,
        unwaiting: Option<Wait>,
    ) -> Gained {
        let waited = self.waited(unwaiting, true);
        let (least_waited, most_waited) = (self.waited(unwaiting, false), waited);
        let all = removed.host.iter().chain(most_waited.ranges()).copied();
        let charged = Intervals::union(all);
        let (least, most) = match whole {
            Whole::Charged if unwaiting.is_some() => (&least_waited, &charged),
            Whole::Charged => (&charged, &charged),
            Whole::Always(all) => (all, all),
            Whole::AtMost(all) => (&charged, all),
        };
        let with = |host: &Intervals, others_wait, part: fn(&(u32, i64, i64)) -> i64| {
            let mut shorter = vec![0; self.pieces.len()];
            for one in &removed.work {
                if let Some(by) = shorter.get_mut(one.0 as usize) {
                    *by += part(one);
                }
            }
            self.span
                - self.play(&Change {
                    host,
                    shorter: &shorter,
                    unwaiting,
                    others_wait,
                })
        };
        let high_ns = with(most, false, |one| one.2);
        let same = std::ptr::eq(least, most) && removed.work.iter().all(|one| one.1 == one.2);
        let low_ns = if same {
            high_ns
        } else {
            with(least, true, |one| one.1)
        };
        Gained { low_ns, high_ns }
    }

    /// Time in calls that wait no more, but for what such a call takes by itself; `all` of them, or those
    /// that did not wait for other ranks.
    fn waited(&self, unwaiting: Option<Wait>, all: bool) -> Intervals {
        let waits = self.waits.iter();
        let waits = waits.filter(|wait| Some(wait.call.why) == unwaiting);
        let waits = waits.filter(|wait| all || !wait.for_others);
        let calls = waits.map(|wait| &wait.call);
        Intervals::union(calls.map(|call| ((call.start + CALL_NS).min(call.end), call.end)))
    }

    /// The span of the rank after a change.
    fn play(&self, change: &Change<'_>) -> i64 {
        let mut clock = Clock::new(change.host);
        let mut times: Vec<(i64, i64)> = self.pieces.iter().map(|p| (p.start, p.end)).collect();
        for &(_, event) in &self.events {
            match event {
                Event::Piece(place) => {
                    let new = self.begin(place, &clock, &times);
                    let shorter = change.shorter.get(place as usize).copied().unwrap_or(0);
                    if let (Some(piece), Some(time)) = (
                        self.pieces.get(place as usize),
                        times.get_mut(place as usize),
                    ) {
                        let length = (piece.end - piece.start - shorter).max(0);
                        *time = (new, new + length);
                    }
                }
                Event::Wait(place) => {
                    let wait = self.waits.get(place as usize);
                    if let Some(wait) = wait.filter(|wait| change.waits(wait)) {
                        let returned = self.returned(wait, &clock, &times);
                        clock.arrive(wait.call.end, returned);
                    }
                }
            }
        }
        let first = times.iter().map(|time| time.0).min().unwrap_or(0);
        let last = times.iter().map(|time| time.1).max().unwrap_or(0);
        last - first
    }

    /// When a piece begins now.
    fn begin(&self, place: u32, clock: &Clock<'_>, times: &[(i64, i64)]) -> i64 {
        let Some(piece) = self.pieces.get(place as usize) else {
            return 0;
        };
        let end_of = |place: u32| times.get(place as usize).map(|time| time.1);
        let launched = piece.launched.map(|at| clock.at(at));
        let quickest = piece
            .launched
            .map_or(0, |at| (piece.start - at).clamp(0, LAUNCH_NS));
        let after_launch = launched.map(|at| at + quickest);
        let old_before = piece.before.and_then(|p| self.pieces.get(p as usize));
        let after_stream = old_before
            .zip(piece.before.and_then(end_of))
            .map(|(old, end)| {
                let gap = (piece.start - old.end).min(BETWEEN_NS);
                end + gap
            });
        let bound = match piece.bound {
            Bound::Launch(at, after) => Some(clock.at(at) + after),
            Bound::Stream(after) => piece.before.and_then(end_of).map(|end| end + after),
            Bound::Other(other, after) => end_of(other).map(|end| end + after),
            Bound::Host => Some(clock.at(piece.start)),
        };
        let all = [bound, after_launch, after_stream];
        all.into_iter().flatten().max().unwrap_or(piece.start)
    }

    /// When a call that waits returns now.
    fn returned(&self, wait: &Waiting, clock: &Clock<'_>, times: &[(i64, i64)]) -> i64 {
        let call = &wait.call;
        let begun = clock.at(call.start);
        let length = call.end - call.start;
        let target = wait
            .piece
            .and_then(|place| Some((self.pieces.get(place as usize)?, times.get(place as usize)?)));
        match target {
            Some((old, new)) if old.end > call.start => {
                (begun + length.min(CALL_NS)).max(new.1 + (call.end - old.end).min(length))
            }
            // It waited for nothing: the time is its own.
            Some((_, new)) => (begun + length).max(new.1 + length.min(CALL_NS)),
            None => begun + length,
        }
    }
}

/// New time of the host for old: what is removed, and where waits now return.
struct Clock<'c> {
    removed: &'c Intervals,
    /// Nanoseconds removed before each of its ranges.
    sums: Vec<i64>,
    /// Old instants of returns, and how much earlier they are now beyond what was removed.
    returns: Vec<(i64, i64)>,
}

impl<'c> Clock<'c> {
    fn new(removed: &'c Intervals) -> Self {
        let mut sum = 0;
        let ranges = removed.ranges().iter();
        Self {
            removed,
            sums: ranges
                .map(|(start, end)| {
                    let before = sum;
                    sum += end - start;
                    before
                })
                .collect(),
            returns: Vec::new(),
        }
    }

    /// Nanoseconds removed before an instant.
    fn gone(&self, at: i64) -> i64 {
        let ranges = self.removed.ranges();
        let place = ranges.partition_point(|range| range.0 < at);
        let Some(last) = place.checked_sub(1) else {
            return 0;
        };
        let before = self.sums.get(last).copied().unwrap_or(0);
        ranges
            .get(last)
            .map_or(before, |range| before + at.min(range.1) - range.0)
    }

    fn at(&self, old: i64) -> i64 {
        let place = self.returns.partition_point(|known| known.0 <= old);
        let earlier = place.checked_sub(1).and_then(|last| self.returns.get(last));
        old - self.gone(old) - earlier.map_or(0, |known| known.1)
    }

    /// What happened at an old instant happens at the new one; all that follows is moved with it.
    fn arrive(&mut self, old: i64, new: i64) {
        if self.returns.last().is_none_or(|known| known.0 < old) {
            self.returns.push((old, old - self.gone(old) - new));
        }
    }
}

/// The last piece that had ended when a call returned; of a call that copies, its copy.
fn waited_for(call: &Blocking, by_end: &[(i64, u32)], by_work: &[(u32, u32)]) -> Option<u32> {
    if let Some(copy) = call.copy {
        let place = by_work.binary_search_by_key(&copy, |known| known.0).ok()?;
        return by_work.get(place).map(|known| known.1);
    }
    let after = by_end.partition_point(|known| known.0 <= call.end);
    by_end.get(after.checked_sub(1)?).map(|known| known.1)
}

/// What each piece waited for.
fn pieces(rank: &Rank<'_>) -> Vec<Piece> {
    let timeline = rank.timeline;
    let way = rank.ordered.way_ns.clamp(CLOSE_NS, LONGEST_WAY_NS);
    let mut last: Vec<Option<u32>> = vec![None; timeline.streams.len()];
    let mut pieces: Vec<Piece> = Vec::with_capacity(rank.ordered.pieces.len());
    // Kernels that compute and had not ended when the last piece began.
    let mut running: Vec<u32> = Vec::new();
    // Pieces in the order in which they ended.
    let mut ends: Vec<(i64, u32)> = Vec::new();
    let mut order: Vec<(i64, u32)> = (0..)
        .zip(&rank.ordered.pieces)
        .map(|(place, piece)| (piece.1, place))
        .collect();
    order.sort_unstable();
    let mut ended = 0;
    for (place, &(start, end, index)) in (0_u32..).zip(&rank.ordered.pieces) {
        while let Some(&known) = order.get(ended).filter(|known| known.0 <= start) {
            if known.1 < place {
                ends.push(known);
            }
            ended += 1;
        }
        let work = timeline.work.get(index as usize);
        let stream = work.map_or(0, |work| work.stream);
        let call = work.and_then(|work| timeline.call_of(work));
        let launched = call.map(|call| call.start_ns);
        let before = last
            .get_mut(stream as usize)
            .and_then(|slot| slot.replace(place));
        let old_before = before
            .and_then(|before| pieces.get(before as usize))
            .copied();
        let since = old_before.map(|before: Piece| before.end).max(launched);
        let waited = since.map_or(0, |since| start - since);
        let elsewhere = |other: u32| {
            let piece = rank.ordered.pieces.get(other as usize);
            let work = piece.and_then(|piece| timeline.work.get(piece.2 as usize));
            work.is_some_and(|work| work.stream != stream)
        };
        let within = CLOSE_NS.max(waited / TIMES);
        let mut other = followed(start, within, &ends, &pieces, elsewhere);
        let kernel = work.is_some_and(|work| {
            let traits = rank.ordered.traits_of(work);
            work.class == WorkClass::Kernel && traits.is_some_and(|traits| !traits.communication)
        });
        running.retain(|place| {
            pieces
                .get(*place as usize)
                .is_some_and(|one| one.end > start)
        });
        if kernel && other.is_none() && waited > CLOSE_NS {
            let beside = running.iter().filter(|place| elsewhere(**place));
            let beside = beside.filter_map(|place| Some((pieces.get(*place as usize)?, *place)));
            other = in_tail(start, waited, beside);
        }
        if kernel {
            running.push(place);
        }
        let bound = bound(way, start, call, old_before.as_ref(), other);
        pieces.push(Piece {
            start,
            end,
            launched,
            before,
            bound,
            key: known_from(launched.unwrap_or(start), old_before, bound, &pieces),
        });
    }
    pieces
}

/// From when on everything that a piece waits for is known.
fn known_from(launched: i64, before: Option<Piece>, bound: Bound, pieces: &[Piece]) -> i64 {
    let other = match bound {
        Bound::Other(other, _) => pieces.get(other as usize).copied(),
        _ => None,
    };
    let keys = [before, other].into_iter().flatten().map(|piece| piece.key);
    keys.fold(launched, i64::max)
}

/// The piece of another stream that a piece followed within so much. Of several, the one that is least likely
/// to have ended then by chance, the longest for its distance: a stream of short kernels has one that ends
/// at any time.
fn followed(
    start: i64,
    within: i64,
    ends: &[(i64, u32)],
    pieces: &[Piece],
    elsewhere: impl Fn(u32) -> bool,
) -> Option<(i64, u32)> {
    let chance = |&(end, place): &(i64, u32)| {
        let piece = pieces.get(place as usize);
        let length = piece.map_or(0, |piece| piece.end - piece.start);
        (start - end + BETWEEN_NS) as f64 / length.max(1) as f64
    };
    let recent = ends.iter().rev();
    let recent = recent.take_while(|end| start - end.0 <= within).take(ENDS);
    let others = recent.copied().filter(|end| elsewhere(end.1));
    others.min_by(|one, two| chance(one).total_cmp(&chance(two)))
}

/// The kernel in whose tail a piece began: it ran all the time in which the piece, launched and first on its
/// stream, waited, and was nearly over. Its blocks had filled the device until then.
fn in_tail<'p>(
    start: i64,
    waited: i64,
    running: impl Iterator<Item = (&'p Piece, u32)>,
) -> Option<(i64, u32)> {
    let tails = running.filter(|(kernel, _)| {
        let left = kernel.end - start;
        kernel.start <= start - waited && left <= (kernel.end - kernel.start) / TIMES
    });
    let first = tails.min_by_key(|(kernel, _)| kernel.end);
    first.map(|(kernel, place)| (kernel.end, place))
}

fn bound(
    way: i64,
    start: i64,
    call: Option<&HostSpan>,
    before: Option<&Piece>,
    other: Option<(i64, u32)>,
) -> Bound {
    let Some(call) = call else {
        return match (before, other) {
            (Some(before), _) if start - before.end <= CLOSE_NS => {
                Bound::Stream(start - before.end)
            }
            (_, Some((end, other))) => Bound::Other(other, start - end),
            _ => Bound::Host,
        };
    };
    let launched = call.start_ns;
    // Of a long call the kernel waits to the end: it goes with the call.
    let at = call.end_ns.min(start).max(launched);
    // What begins as soon after its launch as launches do waited for that, unless it follows at once.
    let quick = start - launched <= way;
    let queued = before
        .filter(|before| before.end > launched && !(quick && start - before.end > BETWEEN_NS));
    let behind = other.filter(|other| other.0 > launched && !quick);
    // It came long after the work before it, while its call was held: the call is what it waited for.
    let held = queued.is_some_and(|before| {
        start - before.end > CLOSE_NS && call.end_ns > before.end.saturating_add(CLOSE_NS)
    });
    match (queued.filter(|_| !held), behind.filter(|_| !held)) {
        (Some(before), Some((end, other)))
            if end > before.end && start - before.end > FOLLOWS_NS =>
        {
            Bound::Other(other, start - end)
        }
        (Some(before), _) => Bound::Stream(start - before.end),
        (None, Some((end, other))) => Bound::Other(other, start - end),
        (None, None) => Bound::Launch(at, start - at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Made, with_rank};

    fn kept(span: i64) -> Gained {
        Gained {
            low_ns: span,
            high_ns: span,
        }
    }

    /// Two kernels of 100 µs, launched 300 µs apart; the host rests between.
    fn two(made: &mut Made) {
        made.kernel("first", 10, 110, 6);
        made.kernel("second", 310, 410, 6);
    }

    #[test]
    fn host_time_that_goes_shortens_the_rank() {
        let mut made = Made::new();
        two(&mut made);
        with_rank(&made.0, |rank| {
            let replay = Replay::new(rank);
            let removed = |host| Removed {
                host,
                work: Vec::new(),
            };
            let gained = |host| replay.gained(&removed(host), Whole::Charged, None);
            assert_eq!(gained(Vec::new()), kept(0));
            assert_eq!(gained(vec![(150_000, 200_000)]), kept(50_000));
            // The second cannot begin before the first has ended.
            assert_eq!(gained(vec![(10_000, 304_000)]), kept(199_000));
        });
    }

    #[test]
    fn a_copy_that_hides_behind_the_host_gains_nothing() {
        let mut made = Made::new();
        two(&mut made);
        with_rank(&made.0, |rank| {
            let removed = Removed {
                host: Vec::new(),
                work: vec![(0, 90_000, 90_000)],
            };
            assert_eq!(
                Replay::new(rank).gained(&removed, Whole::Charged, None),
                kept(0)
            );
        });
    }

    #[test]
    fn a_call_that_no_longer_waits_lets_the_host_go_on() {
        let mut made = Made::new();
        made.kernel("first", 10, 110, 6);
        made.call("cudaDeviceSynchronize", 10, 115);
        made.kernel("second", 165, 265, 10);
        with_rank(&made.0, |rank| {
            let removed = Removed::default();
            let gained =
                Replay::new(rank).gained(&removed, Whole::Charged, Some(Wait::Synchronisation));
            // Launched 101 µs earlier, but the first kernel runs until 110 µs.
            assert_eq!(gained, kept(54_000));
        });
    }

    /// Whoever runs ahead to a collective waits there for the others: that gains nothing for certain.
    #[test]
    fn a_wait_for_other_ranks_is_theirs() {
        let mut made = Made::new();
        made.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 1010, 6);
        made.call("cudaStreamSynchronize", 10, 1015);
        made.kernel("second", 1065, 1165, 10);
        with_rank(&made.0, |rank| {
            let waits = Some(Wait::Synchronisation);
            let gained = Replay::new(rank).gained(&Removed::default(), Whole::Charged, waits);
            assert_eq!((gained.low_ns, gained.high_ns), (0, 54_000));
        });
    }

    /// A kernel of another stream, launched early, begins 20 µs before the end of one that fills the device.
    #[test]
    fn a_kernel_that_began_in_the_tail_of_another_goes_with_it() {
        let mut made = Made::new();
        made.kernel("wide", 10, 1010, 6);
        made.kernel("narrow", 990, 1090, 970).stream = 1;
        with_rank(&made.0, |rank| {
            let removed = Removed {
                host: Vec::new(),
                work: vec![(0, 500_000, 500_000)],
            };
            let gained = Replay::new(rank).gained(&removed, Whole::Charged, None);
            assert_eq!(gained, kept(500_000));
        });
    }
}
