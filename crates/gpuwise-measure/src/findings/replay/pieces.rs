//! What each piece of work was seen to wait for.

use super::{
    super::{host::Blocking, rule::Rank},
    BETWEEN_NS,
};
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

/// What a piece was seen to wait for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
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
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    /// When its launching call began.
    pub(super) launched: Option<i64>,
    pub(super) before: Option<u32>,
    pub(super) bound: Bound,
    /// From when on everything that it waits for is known.
    pub(super) key: i64,
}

/// The last piece that had ended when a call returned; of a call that copies, its copy.
pub(super) fn waited_for(
    call: &Blocking,
    by_end: &[(i64, u32)],
    by_work: &[(u32, u32)],
) -> Option<u32> {
    if let Some(copy) = call.copy {
        let place = by_work.binary_search_by_key(&copy, |known| known.0).ok()?;
        return by_work.get(place).map(|known| known.1);
    }
    let after = by_end.partition_point(|known| known.0 <= call.end);
    by_end.get(after.checked_sub(1)?).map(|known| known.1)
}

/// What each piece waited for.
pub(super) fn pieces(rank: &Rank<'_>) -> Vec<Piece> {
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
