//! Another basis in which numbers are as large as one another: vectors times Q = diag(s) · H / √n, with random signs s and
//! Hadamard's matrix H. Q is orthogonal, so that Qᵀ undoes it. Ashkboos et al. 2024, QuaRot.

use crate::wide::wide;

/// Columns that are turned at once.
const SOME: usize = 64;

/// Q of a number of dimensions: one block after the other, each of the largest power of two that divides it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    block: usize,
    /// Signs, over the root of a block's size.
    factors: Vec<f32>,
}

impl Rotation {
    /// `None` of no dimensions. The signs are the same whenever this is asked.
    pub fn of(dimensions: usize) -> Option<Self> {
        if dimensions == 0 {
            return None;
        }
        let block = 1 << dimensions.trailing_zeros();
        let over = 1.0 / (block as f64).sqrt();
        let factors = (0..dimensions as u64).map(|at| if sign(at) { over } else { -over } as f32);
        Some(Self {
            block,
            factors: factors.collect(),
        })
    }

    /// How many numbers are mixed with one another.
    pub fn block(&self) -> usize {
        self.block
    }

    pub fn dimensions(&self) -> usize {
        self.factors.len()
    }

    /// Vectors one behind the other become v · Q: the rows of a matrix, or the parts of rows. What is no whole vector
    /// stays.
    pub fn turn(&self, vectors: &mut [f32]) {
        wide(
            #[inline(always)]
            || {
                for vector in vectors.chunks_exact_mut(self.dimensions()) {
                    for (value, factor) in vector.iter_mut().zip(&self.factors) {
                        *value *= factor;
                    }
                    for block in vector.chunks_exact_mut(self.block) {
                        mixed(block, 1);
                    }
                }
            },
        );
    }

    /// Some columns of a matrix, whose rows are a number of vectors one below the other: each becomes Qᵀ · v. `to` hears of
    /// some columns at a time: of their first, and their numbers row by row.
    pub fn turn_columns(
        &self,
        matrix: &[f32],
        columns: usize,
        range: std::ops::Range<usize>,
        mut to: impl FnMut(usize, &[f32]),
    ) {
        let mut some = Vec::new();
        for first in range.clone().step_by(SOME) {
            let count = SOME.min(range.end - first);
            some.clear();
            let rows = matrix.chunks_exact(columns.max(1));
            some.extend(rows.flat_map(|row| &row[first..first + count]));
            wide(
                #[inline(always)]
                || self.turn_some(&mut some, count),
            );
            to(first, &some);
        }
    }

    #[inline(always)]
    fn turn_some(&self, some: &mut [f32], count: usize) {
        for vectors in some.chunks_exact_mut(self.dimensions() * count) {
            for (row, factor) in vectors.chunks_exact_mut(count).zip(&self.factors) {
                for value in row {
                    *value *= factor;
                }
            }
            for block in vectors.chunks_exact_mut(self.block * count) {
                mixed(block, count);
            }
        }
    }
}

/// Numbers so far apart as `width` and more become their sums and differences: H times rows of `width`.
#[inline(always)]
fn mixed(rows: &mut [f32], width: usize) {
    let mut half = width;
    while half < rows.len() {
        for pair in rows.chunks_exact_mut(2 * half) {
            let (above, below) = pair.split_at_mut(half);
            for (above, below) in above.iter_mut().zip(below) {
                (*above, *below) = (*above + *below, *above - *below);
            }
        }
        half *= 2;
    }
}

/// The bits of SplitMix64 (Steele et al. 2014), so that they have nothing in common with the rows of H.
fn sign(at: u64) -> bool {
    let mut bits = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) & 1 == 1
}
