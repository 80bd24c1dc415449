//! The sequence of kernels that a stream repeats, found without markers of steps.
//!
//! Every run of [`GRAM`] kernels is hashed, and how far it lies from where it was last seen is counted.
//! The first period is the shortest distance after which the same kernels stand about as surely as after
//! any other. That may be a layer, for a stack of equal layers misses only where it ends; so what it
//! misses is looked at alone: where that recurs at a distance of its own, that distance is the period, and
//! so on outwards. Kernels that come or go in a step move what follows together, so that only the
//! runs across them are lost. Time and memory grow with n log n and n.

use super::ordered::{Ordered, Piece};
use gpuwise_domain::profile::{
    figures::{InnerSequence, SequenceFigures},
    timeline::{Timeline, WorkClass},
};
use gpuwise_units::math;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Kernels that are looked at together.
const GRAM: usize = 6;
/// Distances that are tried as periods, the most frequent first.
const TRIED: usize = 64;
/// A period must hold for this share of the kernels at least.
const LEAST_COVERED: f64 = 0.5;
/// A shorter period is taken if it misses at most so many times what the best misses, and this share of
/// kernels more: a stack of equal layers misses only where it ends.
const MISSES: f64 = 1.25;
const MISSES_MORE: f64 = 0.002;
/// Of runs that a period misses, this share recurs at the next: two of three steps may be disturbed.
const LEAST_RECURRING: f64 = 1.0 / 3.0;
/// Periods within periods: kernels, layers, micro-batches, steps.
const LEVELS: u32 = 4;
/// A repeat may be longer or shorter than the period by this share of it, and two kernels.
const VARIES: f64 = 0.05;

/// The sequence of the stream that runs most kernels; none where nothing repeats.
pub(super) fn figures(timeline: &Timeline, ordered: &Ordered) -> Option<SequenceFigures> {
    let kernels = busiest(timeline, ordered)?;
    let names: Vec<u32> = kernels
        .iter()
        .map(|piece| piece.work(timeline).map_or(u32::MAX, |work| work.name.0))
        .collect();
    let grams = grams(&names);
    let period = period(&names, &grams)?;
    let places = places(&kernels, &grams, period)?;
    let start = |place: usize| kernels.get(place).map(|piece| piece.start);
    let repeats: Vec<(i64, i64)> = places
        .windows(2)
        .filter(|pair| is_period(pair[1] - pair[0], period))
        .filter_map(|pair| Some((start(pair[0])?, start(pair[1])?)))
        .collect();
    let mut lengths: Vec<i64> = repeats.iter().map(|(from, to)| to - from).collect();
    lengths.sort_unstable();
    let (first, last) = (*places.first()?, *places.last()?);
    let apart = places.windows(2).map(|pair| pair[1] - pair[0]);
    let regular: usize = apart.filter(|length| is_period(*length, period)).sum();
    let covered = regular + period.min(names.len() - last);
    let one = names.get(first..(first + period).min(names.len()))?;
    Some(SequenceFigures {
        kernels: u32::try_from(period).ok()?,
        count: u32::try_from(places.len()).ok()?,
        median_ns: *lengths.get(lengths.len() / 2)?,
        repeats,
        covered: covered as f64 / names.len() as f64,
        inner: inner(one),
    })
}

/// Kernels of the stream that runs most of them, in order of time.
fn busiest<'o>(timeline: &Timeline, ordered: &'o Ordered) -> Option<Vec<&'o Piece>> {
    let stream = |piece: &Piece| {
        let work = piece.work(timeline)?;
        (work.class == WorkClass::Kernel).then_some(work.stream)
    };
    let mut counts: FxHashMap<u32, u64> = FxHashMap::default();
    for piece in &ordered.pieces {
        if let Some(stream) = stream(piece) {
            *counts.entry(stream).or_default() += 1;
        }
    }
    let (busiest, _) = counts
        .into_iter()
        .max_by_key(|(stream, count)| (*count, Reverse(*stream)))?;
    let of = |piece: &&Piece| stream(piece) == Some(busiest);
    Some(ordered.pieces.iter().filter(of).collect())
}

/// A hash of each run of kernels, by its first.
fn grams(names: &[u32]) -> Vec<u64> {
    let hash = |gram: &[u32]| {
        let mix = |hash, name: &u32| math::mixed(hash ^ u64::from(*name));
        gram.iter().fold(0, mix)
    };
    names.windows(GRAM).map(hash).collect()
}

/// How far each gram lies from where it was last seen, the most frequent distances first.
fn distances(grams: &[u64], most: usize) -> Vec<usize> {
    let mut seen: FxHashMap<u64, usize> = FxHashMap::default();
    let mut all: Vec<usize> = (0..)
        .zip(grams)
        .filter_map(|(place, gram)| Some(place - seen.insert(*gram, place)?))
        .filter(|distance| (2..=most).contains(distance))
        .collect();
    all.sort_unstable();
    let mut counted: Vec<(usize, usize)> = all
        .chunk_by(|a, b| a == b)
        .map(|same| (same.len(), same[0]))
        .collect();
    counted.sort_by_key(|(count, distance)| (Reverse(*count), *distance));
    counted
        .into_iter()
        .take(TRIED)
        .map(|(_, distance)| distance)
        .collect()
}

/// Behind how many kernels the same stands so far later.
fn matches(names: &[u32], distance: usize) -> usize {
    let later = names.iter().skip(distance);
    names
        .iter()
        .zip(later)
        .filter(|(one, other)| one == other)
        .count()
}

fn period(names: &[u32], grams: &[u64]) -> Option<usize> {
    let tried: Vec<(usize, f64)> = distances(grams, names.len() / 2)
        .into_iter()
        .map(|distance| {
            let all = (names.len() - distance) as f64;
            (distance, matches(names, distance) as f64 / all)
        })
        .collect();
    let best = tried.iter().map(|(_, covered)| *covered).reduce(f64::max)?;
    if best < LEAST_COVERED {
        return None;
    }
    let missed = MISSES * (1.0 - best) + MISSES_MORE;
    let good = tried
        .into_iter()
        .filter(|(_, covered)| 1.0 - covered <= missed);
    let (mut period, _) = good.min_by_key(|(distance, _)| *distance)?;
    for _ in 0..LEVELS {
        match outer(grams, period, names.len() / 2) {
            Some(longer) => period = longer,
            None => break,
        }
    }
    Some(period)
}

/// The distance at which what a period misses recurs.
fn outer(grams: &[u64], period: usize, most: usize) -> Option<usize> {
    let missed = |place: &usize| {
        grams
            .get(place + period)
            .is_some_and(|later| grams[*place] != *later)
    };
    let places: Vec<usize> = (0..grams.len()).filter(missed).collect();
    let mut seen: FxHashMap<u64, usize> = FxHashMap::default();
    let mut all: Vec<usize> = places
        .iter()
        .filter_map(|place| Some(place - seen.insert(grams[*place], *place)?))
        .filter(|distance| (period + 1..=most).contains(distance))
        .collect();
    all.sort_unstable();
    let around = |distance: usize| all.iter().filter(|one| is_period(**one, distance)).count();
    let middle = |same: &[usize]| (same.len(), same[0]);
    let mut counted: Vec<(usize, usize)> = all.chunk_by(|a, b| a == b).map(middle).collect();
    counted.sort_by_key(|(count, distance)| (Reverse(*count), *distance));
    let tried = counted.into_iter().take(TRIED);
    let (recurring, longer) = tried
        .map(|(_, distance)| (around(distance), distance))
        .max_by_key(|(count, distance)| (*count, Reverse(*distance)))?;
    // What lies in the last repeat cannot recur.
    let could = places
        .iter()
        .filter(|place| **place + longer < grams.len())
        .count();
    (recurring as f64 >= LEAST_RECURRING * could as f64 && !is_period(longer, period))
        .then_some(longer)
}

fn is_period(distance: usize, period: usize) -> bool {
    distance.abs_diff(period) as f64 <= VARIES * period as f64 + 2.0
}

/// Where repeats begin: at the gram that recurs most regularly, and of equally regular ones (nine of ten
/// times) the one before which the stream is idle longest, as between steps.
fn places(kernels: &[&Piece], grams: &[u64], period: usize) -> Option<Vec<usize>> {
    let mut by_gram: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (place, gram) in (0..).zip(grams) {
        by_gram.entry(*gram).or_default().push(place);
    }
    let idle = |place: usize| {
        let before = place.checked_sub(1).and_then(|before| kernels.get(before));
        let (before, own) = before.zip(kernels.get(place))?;
        Some(own.start.saturating_sub(before.end).max(0))
    };
    let mut found: Vec<(usize, i64, Vec<usize>)> = Vec::new();
    for places in by_gram.into_values().filter(|places| places.len() >= 2) {
        let apart = |pair: &&[usize]| is_period(pair[1] - pair[0], period);
        let regular = places.windows(2).filter(apart).count();
        if regular > 0 && 2 * regular >= places.len() - 1 {
            let idle = places.iter().filter_map(|place| idle(*place)).sum();
            found.push((regular, idle, places));
        }
    }
    let most = found.iter().map(|(regular, _, _)| *regular).max()?;
    found.retain(|(regular, _, _)| 10 * regular >= 9 * most);
    let best = found.into_iter().max_by_key(|(regular, idle, places)| {
        (*idle, *regular, Reverse(places.first().copied()))
    })?;
    Some(best.2)
}

/// What repeats within one repeat, where that is half of it at least.
fn inner(names: &[u32]) -> Option<InnerSequence> {
    let tried: Vec<(usize, usize)> = distances(&grams(names), names.len() / 2)
        .into_iter()
        .map(|distance| (distance, matches(names, distance)))
        .collect();
    let most = tried.iter().map(|(_, matched)| *matched).max()?;
    let good = tried
        .into_iter()
        .filter(|(_, matched)| 10 * matched >= 9 * most);
    let (distance, matched) = good.min_by_key(|(distance, _)| *distance)?;
    if 2 * (matched + distance) < names.len() {
        return None;
    }
    Some(InnerSequence {
        kernels: u32::try_from(distance).ok()?,
        count: u32::try_from((matched + distance + distance / 2) / distance).ok()?,
    })
}
