//! What has to be seen of a whole matrix before its rows can be encoded.

use crate::{
    Scheme, Stored, Strategy,
    scales::Tried,
    wide::{Grid, LANES, Lanes, least, wide},
};

/// What was seen of a matrix.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// The largest absolute value that is finite.
    pub largest: f32,
    /// Elements that are NaN or infinite.
    pub not_finite: u64,
    /// The first of them, counted row by row.
    pub first: Option<u64>,
    /// Elements that were seen.
    pub elements: u64,
    /// Where one scale is searched for all: how many elements there are of each size, by the upper half of its bits.
    /// That is all of a bfloat16.
    sizes: Vec<u64>,
}

/// Sizes that the upper half of a number can have.
const SIZES: usize = 1 << 15;

/// Elements that are widened at once, so that they stay in the nearest cache.
const SOME: usize = 2048;

impl Scan {
    /// One that has seen nothing, and will see what a scheme asks for.
    pub fn of(scheme: Scheme) -> Self {
        let sizes = if scheme.strategy() == Strategy::Tensor {
            vec![0; SIZES]
        } else {
            Vec::new()
        };
        Self {
            sizes,
            ..Self::default()
        }
    }

    /// Sees more elements, in their order.
    pub fn see(&mut self, stored: Stored, bytes: &[u8], buffer: &mut Vec<f32>) {
        for some in bytes.chunks(SOME * stored.bytes()) {
            let largest = wide(
                #[inline(always)]
                || widened((stored, some, &mut *buffer)),
            );
            if largest < INFINITE {
                self.largest = self.largest.max(f32::from_bits(largest));
            } else {
                self.odd(buffer);
            }
            if !self.sizes.is_empty() {
                for value in &*buffer {
                    self.sizes[(value.to_bits() >> 16) as usize & (SIZES - 1)] += 1;
                }
            }
            self.elements += buffer.len() as u64;
        }
    }

    /// Sees elements of which some are not finite.
    fn odd(&mut self, values: &[f32]) {
        for (at, value) in values.iter().enumerate() {
            if value.is_finite() {
                self.largest = self.largest.max(value.abs());
            } else {
                self.not_finite += 1;
                self.first.get_or_insert(self.elements + at as u64);
            }
        }
    }

    /// What two runs of rows are together, `self` before `other`.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        if self.sizes.is_empty() {
            self.sizes = other.sizes;
        } else {
            for (size, more) in self.sizes.iter_mut().zip(other.sizes) {
                *size += more;
            }
        }
        Self {
            largest: self.largest.max(other.largest),
            not_finite: self.not_finite + other.not_finite,
            first: self.first.or(other.first.map(|at| at + self.elements)),
            elements: self.elements + other.elements,
            sizes: self.sizes,
        }
    }

    /// The scale for all with the least loss.
    pub(crate) fn scale<G: Grid>(&self, tried: Tried, grid: G) -> f32 {
        let lost = wide(
            #[inline(always)]
            || Self::losses((self, &tried.over(), grid)),
        );
        let lost = tried.in_elements(&lost);
        tried.scales[least(&lost)]
    }

    #[inline(always)]
    fn losses<G: Grid>((seen, over, grid): (&Self, &Lanes, G)) -> Lanes {
        let mut all = [0.0_f64; LANES];
        for (size, count) in seen
            .sizes
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let value = f32::from_bits((size as u32) << 16);
            let count = *count as f64;
            for lane in 0..LANES {
                let exact = value * over[lane];
                let off = f64::from(grid.near(exact) - exact);
                all[lane] += off * off * count;
            }
        }
        all.map(|one| one as f32)
    }
}

/// Bits of what is infinite; those of NaN are more.
const INFINITE: u32 = 0x7f80_0000;

#[inline(always)]
fn widened((stored, bytes, buffer): (Stored, &[u8], &mut Vec<f32>)) -> u32 {
    stored.widen(bytes, buffer);
    largest_bits(buffer)
}

/// The bits of the largest size; as numbers, bits are in the order of sizes.
#[inline(always)]
fn largest_bits(values: &[f32]) -> u32 {
    let mut lanes = [0_u32; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for some in whole {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].max(some[lane].to_bits() & 0x7fff_ffff);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = (*lane).max(value.to_bits() & 0x7fff_ffff);
    }
    lanes.into_iter().fold(0, u32::max)
}
