//! FP8 E4M3 without infinities (`float8_e4m3fn`): 4 bits of exponent, 3 of mantissa, bias 7, largest 448.
//! Micikevicius et al. 2022, "FP8 Formats for Deep Learning".

/// The largest number.
pub(crate) const LARGEST: f32 = 448.0;

/// Below this, steps do not get smaller any more.
const NORMAL: f32 = 1.0 / 64.0;

/// The nearest code, ties to even; what is larger than the largest is the largest.
#[inline]
pub(crate) fn code(value: f32) -> u8 {
    let sign = (value.to_bits() >> 24) & 0x80;
    let size = value.abs().min(LARGEST);
    let bits = size.to_bits();
    let normal = ((bits + 0x7_ffff + ((bits >> 20) & 1)) >> 20).wrapping_sub(120 << 3);
    // A step is 2^-9 there, which is that of numbers from 2^14 on in `f32`.
    let small = (size + 16384.0).to_bits() - 16384.0_f32.to_bits();
    let code = if size < NORMAL { small } else { normal };
    (sign | code) as u8
}

/// What the nearest code means, ties to even.
#[inline]
pub(crate) fn rounded(value: f32) -> f32 {
    let size = value.abs().min(LARGEST);
    let bits = size.to_bits();
    let normal = f32::from_bits((bits + 0x7_ffff + ((bits >> 20) & 1)) & !0xf_ffff);
    let small = (size + 16384.0) - 16384.0;
    let near = if size < NORMAL { small } else { normal };
    near.copysign(value)
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
                assert_eq!(rounded(value(one)).to_bits(), value(one).to_bits());
            }
        }
    }

    #[test]
    fn a_code_is_the_nearest_one() {
        let codes: Vec<f32> = (0..0x7f).map(value).collect();
        for step in 0..60_000_u32 {
            let asked = step as f32 / 128.0;
            let found = code(asked);
            let nearest = |to: f32| {
                codes
                    .iter()
                    .map(|one| (one - to).abs())
                    .fold(f32::MAX, f32::min)
            };
            assert_eq!((value(found) - asked).abs(), nearest(asked), "{asked}");
            assert_eq!(value(code(-asked)), -value(found));
            assert_eq!(rounded(asked), value(found));
        }
    }
}
