//! Integers of 4 or 8 bits, and several of them in one word.

use crate::wide::{Grid, LANES, Lanes, clipped};
use pulp::{Simd, WithSimd};

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

    #[inline(always)]
    fn losses(self, run: &[f32], over: &Lanes, shift: Option<&Lanes>) -> Lanes {
        let (arch, whole) = (pulp::Arch::new(), self);
        match shift {
            Some(shift) => arch.dispatch(Losses::<true> {
                run,
                over,
                shift,
                whole,
            }),
            None => arch.dispatch(Losses::<false> {
                run,
                over,
                shift: &[0.0; LANES],
                whole,
            }),
        }
    }
}

/// The same as every grid's losses, by registers: of sixteen sums that are carried along the compiler makes pieces. Where
/// nothing is `SHIFTED` it is not added either.
struct Losses<'a, const SHIFTED: bool> {
    run: &'a [f32],
    over: &'a Lanes,
    shift: &'a Lanes,
    whole: Whole,
}

impl<const SHIFTED: bool> WithSimd for Losses<'_, SHIFTED> {
    type Output = Lanes;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Lanes {
        let (over, shift) = (S::as_simd_f32s(self.over).0, S::as_simd_f32s(self.shift).0);
        let all = |value| simd.splat_f32s(value);
        let (lowest, highest) = (all(self.whole.least), all(self.whole.most));
        let point = all(WHOLE);
        let mut sums = [all(0.0); LANES];
        for value in self.run {
            let value = all(*value);
            for (sum, (over, shift)) in sums.iter_mut().zip(over.iter().zip(shift)) {
                let mut exact = simd.mul_f32s(value, *over);
                if SHIFTED {
                    exact = simd.add_f32s(exact, *shift);
                }
                let inside = simd.min_f32s(simd.max_f32s(exact, lowest), highest);
                let near = simd.sub_f32s(simd.add_f32s(inside, point), point);
                let off = simd.sub_f32s(near, exact);
                *sum = simd.add_f32s(*sum, simd.mul_f32s(off, off));
            }
        }
        let mut lost = [0.0; LANES];
        S::as_mut_simd_f32s(&mut lost)
            .0
            .iter_mut()
            .zip(sums)
            .for_each(|(to, sum)| *to = sum);
        lost
    }
}

/// A whole number from 0 to 255, as a byte: the last bits of a number that is 2^23 larger.
#[inline(always)]
pub(crate) fn byte(whole: f32) -> u8 {
    (whole + 8_388_608.0).to_bits() as u8
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

#[cfg(test)]
mod tests {
    use super::{Losses, Whole};
    use crate::wide::{Grid as _, LANES, Lanes};
    use pulp::{Arch, Scalar, Scalar128b, Scalar256b, Scalar512b, WithSimd};

    #[test]
    fn losses_are_the_same_by_registers_of_every_width() {
        let grid = Whole::of(4);
        let of = |at: u32| (at.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 20) as f32 - 8.0;
        let over: Lanes = std::array::from_fn(|at| 0.8 + at as f32 / 37.0);
        for (count, zero) in [(1, 0.0), (31, 0.0), (32, 3.0), (128, -5.0)] {
            let run = (0..count).map(of).collect::<Vec<_>>();
            let shift = &[zero; LANES];
            let by = || Losses::<true> {
                run: &run,
                over: &over,
                shift,
                whole: grid,
            };
            let bits = |lost: Lanes| lost.map(f32::to_bits);
            if zero == 0.0 {
                let unshifted = bits(grid.losses(&run, &over, None));
                assert_eq!(unshifted, bits(grid.losses(&run, &over, Some(shift))));
            }
            let one = bits(by().with_simd(Scalar));
            assert!(one.iter().all(|lost| *lost != 0));
            assert_eq!(bits(by().with_simd(Scalar128b)), one);
            assert_eq!(bits(by().with_simd(Scalar256b)), one);
            assert_eq!(bits(by().with_simd(Scalar512b)), one);
            assert_eq!(bits(Arch::new().dispatch(by())), one);
        }
    }
}
