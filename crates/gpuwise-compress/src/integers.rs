//! Integers of 4 or 8 bits, and several of them in one word.

use crate::wide::{Grid, clipped};

/// Adding it takes what is behind the point from numbers below 2^22.
const WHOLE: f32 = 12_582_912.0;

/// Whole numbers from `least` to `most`, within 2^21 of 0.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) least: f32,
    pub(crate) most: f32,
}

impl Whole {
    /// Those of so many bits, from -2^(bits-1) on.
    pub(crate) fn of(bits: u32) -> Self {
        let half = (1_u32 << (bits - 1)) as f32;
        Self {
            least: -half,
            most: half - 1.0,
        }
    }
}

impl Grid for Whole {
    #[inline(always)]
    fn near(self, value: f32) -> f32 {
        (clipped(value, self.least, self.most) + WHOLE) - WHOLE
    }
}

/// Puts codes of 4 bits two in a byte, the first lower: in words of 32 bits as well, the first lies lowest.
#[inline(always)]
pub(crate) fn put_pairs(codes: &[u8], to: &mut Vec<u8>) {
    let pairs = codes.as_chunks::<2>().0.iter();
    to.extend(pairs.map(|pair| {
        let both = u16::from_le_bytes(*pair);
        (both | both >> 4) as u8
    }));
}

/// Packs codes of 4 or 8 bits into words of 32 bits.
#[inline(always)]
pub(crate) fn pack(codes: &[u8], bits: u32, to: &mut Vec<u8>) {
    let before = to.len();
    if bits == 4 {
        put_pairs(codes, to);
        if let [last] = codes.as_chunks::<2>().1 {
            to.push(*last);
        }
    } else {
        to.extend_from_slice(codes);
    }
    let bytes = to.len() - before;
    to.resize(before + bytes.next_multiple_of(4), 0);
}

/// The number at `at` of words that [`pack`] made.
pub(crate) fn unpacked(words: &[u8], at: usize, bits: u32) -> i32 {
    let byte = words[at * bits as usize / 8];
    let code = if bits == 4 {
        (byte >> (4 * (at % 2))) & 15
    } else {
        byte
    };
    i32::from(code) - (1 << (bits - 1))
}
