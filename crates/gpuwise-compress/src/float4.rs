//! FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign. OCP Microscaling Formats 1.0.

use crate::wide::{Grid, clipped};

/// The largest number.
pub(crate) const LARGEST: f32 = 6.0;

const VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Its numbers.
#[derive(Clone, Copy)]
pub(crate) struct E2m1;

impl Grid for E2m1 {
    #[inline(always)]
    fn near(self, value: f32) -> f32 {
        let value = clipped(value, -LARGEST, LARGEST);
        // Steps are those of 1 below it: 0.5. 1.5 · 2^22 times the power of two has steps half as large as that.
        let power = (value.to_bits() & 0x7f80_0000).max(127 << 23);
        let far = f32::from_bits(power + (22 << 23) + 0x40_0000);
        (value + far) - far
    }
}

/// The code of what was rounded.
#[inline(always)]
pub(crate) fn code(rounded: f32) -> u8 {
    let sign = (rounded.to_bits() >> 28) as u8 & 8;
    let size = rounded.abs();
    let normal = (size.to_bits() >> 22).wrapping_sub(126 << 1);
    let code = if size < 1.0 {
        (size * 2.0) as u32
    } else {
        normal
    };
    sign | code as u8
}

/// What a code means.
pub(crate) fn value(code: u8) -> f32 {
    let size = VALUES[usize::from(code & 7)];
    if code & 8 == 0 { size } else { -size }
}

/// What the scale of all brings scales of groups into the range of E4M3 by.
pub(crate) fn global(largest: f32) -> f32 {
    let exact = crate::float8::LARGEST * LARGEST / largest;
    if exact.is_normal() { exact } else { 1.0 }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes are exact")]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for one in 0..16 {
            assert_eq!(code(value(one)), one);
            assert_eq!(
                E2m1.near(value(one)).abs().to_bits(),
                value(one).abs().to_bits()
            );
        }
    }

    #[test]
    fn the_nearest_and_ties_to_even() {
        for step in 0..4000_u32 {
            let asked = step as f32 / 512.0;
            let nearest = VALUES
                .iter()
                .map(|one| (one - asked).abs())
                .fold(f32::MAX, f32::min);
            assert_eq!((E2m1.near(asked) - asked).abs(), nearest, "{asked}");
        }
        let ties = [
            (0.25, 0.0),
            (0.75, 1.0),
            (1.25, 1.0),
            (1.75, 2.0),
            (2.5, 2.0),
            (3.5, 4.0),
            (5.0, 4.0),
        ];
        for (asked, found) in ties {
            assert_eq!(E2m1.near(asked), found, "{asked}");
        }
    }
}
