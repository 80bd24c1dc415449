//! A product of two thin matrices, added to a matrix: W + s · L · R, as adapters have it (Hu et al. 2021, LoRA).

use crate::{
    Stored,
    wide::{LANES, Lanes, seen, wide},
};

/// Columns whose sums are kept in registers.
const TOGETHER: usize = 4 * LANES;
/// Columns that are widened at once; a divisor of what sums of squares take together.
const SOME: usize = 8 * TOGETHER;

/// `s · L · R`, with `L` of rows × rank and `R` of rank × columns.
#[derive(Debug, Clone, PartialEq)]
pub struct LowRank {
    left: Vec<f32>,
    right: Vec<f32>,
    rank: usize,
    columns: usize,
    scale: f32,
}

/// What an addition did, as sums of squares.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Added {
    /// Of what there was.
    pub power: f64,
    /// Of what was added, before anything was rounded.
    pub added: f64,
    /// Of what rounding to the stored numbers took.
    pub lost: f64,
    /// The first element that is not finite, counted from where the addition began.
    pub odd: Option<u64>,
}

impl Added {
    /// What two runs are together, `self` of so many elements before `other`.
    #[must_use]
    pub fn then(self, elements: u64, other: Self) -> Self {
        Self {
            power: self.power + other.power,
            added: self.added + other.added,
            lost: self.lost + other.lost,
            odd: self.odd.or(other.odd.map(|at| at + elements)),
        }
    }
}

impl LowRank {
    /// Both row by row; `None` where they are no such matrices.
    pub fn new(left: Vec<f32>, right: Vec<f32>, rank: usize, scale: f32) -> Option<Self> {
        let whole = |values: &[f32]| rank > 0 && values.len().is_multiple_of(rank);
        (whole(&left) && whole(&right) && !right.is_empty()).then(|| Self {
            columns: right.len() / rank,
            left,
            right,
            rank,
            scale,
        })
    }

    /// Adds it to a run of elements that begins at element `first`, counted row by row. Sums are of 32 bits, in the
    /// order of ranks; each element is rounded once, when it is stored. What lies below the last row stays, and
    /// so does what is no whole element.
    pub fn add(&self, stored: Stored, first: u64, bytes: &mut [u8]) -> Added {
        let mut all = Added::default();
        let (mut at, mut before) = (usize::try_from(first).unwrap_or(usize::MAX), 0);
        let mut rest = bytes;
        let mut room = Room::default();
        while !rest.is_empty() {
            let (row, column) = (at / self.columns, at % self.columns);
            let Some(left) = self.left.get(row * self.rank..(row + 1) * self.rank) else {
                break;
            };
            let count = (self.columns - column)
                .min(SOME)
                .min(rest.len() / stored.bytes());
            if count == 0 {
                break;
            }
            let (some, after) = rest.split_at_mut(count * stored.bytes());
            let added = wide(
                #[inline(always)]
                || self.some((stored, left, column, some, &mut room)),
            );
            all = all.then(before, added);
            before += count as u64;
            at += count;
            rest = after;
        }
        all
    }

    #[inline(always)]
    fn some(
        &self,
        (stored, left, column, bytes, room): (Stored, &[f32], usize, &mut [u8], &mut Room),
    ) -> Added {
        let Room { was, more, off } = room;
        stored.widen(bytes, was);
        more.clear();
        for from in (0..was.len()).step_by(TOGETHER) {
            let count = TOGETHER.min(was.len() - from);
            self.sums(left, column + from, count, more);
        }
        let power = seen(was).power;
        let added = seen(more).power;
        for (sum, was) in more.iter_mut().zip(&*was) {
            *sum += was;
        }
        stored.narrow(more, bytes);
        stored.widen(bytes, off);
        let finite = seen(off).finite;
        let odd = (!finite).then(|| off.iter().position(|one| !one.is_finite()));
        for (off, exact) in off.iter_mut().zip(&*more) {
            *off -= exact;
        }
        Added {
            power,
            added,
            lost: seen(off).power,
            odd: odd.flatten().map(|at| at as u64),
        }
    }

    /// `s · l · R` of some columns.
    #[inline(always)]
    fn sums(&self, left: &[f32], column: usize, count: usize, to: &mut Vec<f32>) {
        let rows = self.right.chunks_exact(self.columns);
        let mut sums = [[0.0_f32; LANES]; TOGETHER / LANES];
        if count == TOGETHER {
            for (factor, row) in left.iter().zip(rows) {
                let (some, _) = row[column..column + TOGETHER].as_chunks::<LANES>();
                for (sum, some) in sums.iter_mut().zip(some) {
                    more(sum, *factor, some);
                }
            }
        } else {
            for (factor, row) in left.iter().zip(rows) {
                let sums = sums.iter_mut().flatten();
                for (sum, value) in sums.zip(&row[column..column + count]) {
                    *sum += factor * value;
                }
            }
        }
        let scaled = sums.iter().flatten().map(|sum| sum * self.scale);
        to.extend(scaled.take(count));
    }
}

/// What is used again from run to run.
#[derive(Default)]
struct Room {
    was: Vec<f32>,
    more: Vec<f32>,
    off: Vec<f32>,
}

#[inline(always)]
fn more(sum: &mut Lanes, factor: f32, some: &Lanes) {
    for lane in 0..LANES {
        sum[lane] += factor * some[lane];
    }
}
