//! FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign. OCP Microscaling Formats 1.0.

/// The largest number.
pub(crate) const LARGEST: f32 = 6.0;

const VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// What the nearest code means, ties to even codes.
#[inline]
pub(crate) fn rounded(value: f32) -> f32 {
    let size = value.abs().min(LARGEST);
    let bits = size.to_bits();
    let normal = f32::from_bits((bits + 0x1f_ffff + ((bits >> 22) & 1)) & !0x3f_ffff);
    // A step is 0.5 below 1, which is that of numbers from 2^22 on.
    let small = (size + 4_194_304.0) - 4_194_304.0;
    let near = if size < 1.0 { small } else { normal };
    near.copysign(value)
}

/// The code of what was rounded.
#[inline]
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

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes are exact")]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back() {
        for one in 0..16 {
            assert_eq!(code(value(one)), one);
            assert_eq!(rounded(value(one)).to_bits(), value(one).to_bits());
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
            assert_eq!((rounded(asked) - asked).abs(), nearest, "{asked}");
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
            assert_eq!(rounded(asked), found, "{asked}");
        }
    }
}
