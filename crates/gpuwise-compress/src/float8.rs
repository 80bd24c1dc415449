//! FP8 E4M3 without infinities (`float8_e4m3fn`): 4 bits of exponent, 3 of mantissa, bias 7, largest 448.
//! Micikevicius et al. 2022, "FP8 Formats for Deep Learning".

use crate::wide::{Grid, clipped};

/// The largest number.
pub(crate) const LARGEST: f32 = 448.0;

/// Below this, steps do not get smaller any more.
const NORMAL: f32 = 1.0 / 64.0;

/// Its numbers.
#[derive(Clone, Copy)]
pub(crate) struct E4m3;

impl Grid for E4m3 {
    #[inline(always)]
    fn near(self, value: f32) -> f32 {
        let value = clipped(value, -LARGEST, LARGEST);
        // 1.5 · 2^20 times the power of two of a number has steps an eighth as large as that; none are smaller than
        // those of the least normal number.
        let power = (value.to_bits() & 0x7f80_0000).max(NORMAL.to_bits());
        let far = f32::from_bits(power + (20 << 23) + 0x40_0000);
        (value + far) - far
    }
}

/// The code of what was rounded.
#[inline(always)]
pub(crate) fn code(rounded: f32) -> u8 {
    let size = rounded.abs();
    let normal = (size.to_bits() >> 20).wrapping_sub(120 << 3);
    // A step is 2^-9 there, which is that of numbers from 2^14 on in `f32`.
    let small = (size + 16384.0)
        .to_bits()
        .wrapping_sub(16384.0_f32.to_bits());
    let code = if size < NORMAL { small } else { normal };
    (((rounded.to_bits() >> 24) & 0x80) | code) as u8
}

/// What a code means.
pub(crate) fn value(code: u8) -> f32 {
    let sign = u32::from(code & 0x80) << 24;
    let rest = u32::from(code & 0x7f);
    let size = if rest == 0x7f {
        f32::NAN
    } else if rest < 8 {
        rest as f32 / 512.0
    } else {
        f32::from_bits((rest << 20) + (120 << 23))
    };
    f32::from_bits(sign | size.to_bits())
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes are exact")]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for one in 0..=u8::MAX {
            if one & 0x7f != 0x7f {
                assert_eq!(code(value(one)), one);
                assert_eq!(E4m3.near(value(one)), value(one));
            }
        }
    }

    #[test]
    fn a_code_is_the_nearest_one() {
        let codes: Vec<f32> = (0..0x7f).map(value).collect();
        for step in 0..60_000_u32 {
            let asked = step as f32 / 128.0;
            let found = code(E4m3.near(asked));
            let nearest = |to: f32| {
                codes
                    .iter()
                    .map(|one| (one - to).abs())
                    .fold(f32::MAX, f32::min)
            };
            assert_eq!((value(found) - asked).abs(), nearest(asked), "{asked}");
            assert_eq!(value(code(E4m3.near(-asked))), -value(found));
        }
    }
}
