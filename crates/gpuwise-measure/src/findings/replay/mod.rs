//! A rank played again without a cause: what a fix would gain, where what it takes away may have hidden
//! behind something else.
//!
//! The host is one line of time: what is taken from it moves all that follows. A call that waited for the
//! device waits again. A piece of work begins after its launch, after the work before it on its stream,
//! and after work of another stream that it followed closely, or in the tail of a kernel that had filled
//! the device; where a gap on a stream has no reason in the trace, it stays. Without a change every piece
//! lies where it lay.

mod clock;
mod pieces;

use super::{
    host::{Blocking, Wait},
    ledger::{Gained, Removed},
    rule::Rank,
};
use crate::figures::intervals::Intervals;
use clock::Clock;
use pieces::{Bound, Piece, pieces, waited_for};

/// What a call that waits for the device takes where it has nothing to wait for.
const CALL_NS: i64 = 4_000;
/// The way from a launching call to an idle device.
const LAUNCH_NS: i64 = 4_000;
/// Between two kernels of a stream that are both launched.
pub(super) const BETWEEN_NS: i64 = 1_000;

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
