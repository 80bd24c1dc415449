//! Numbers as checkpoints store them.

use crate::wide::{LANES, Lanes, clipped};

/// A scale is so large at most: rounding it to fewer digits stays finite.
const MOST: f32 = f32::MAX / 2.0;
/// The least number of an IEEE half, 2^-24.
const HALF_LEAST: f32 = f32::from_bits((127 - 24) << 23);

/// How the elements of a matrix are stored before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    Bf16,
    F16,
    F32,
}

impl Stored {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// By the name that safetensors gives it.
    pub fn named(dtype: &str) -> Option<Self> {
        match dtype {
            "BF16" => Some(Self::Bf16),
            "F16" => Some(Self::F16),
            "F32" => Some(Self::F32),
            _ => None,
        }
    }

    /// The name that safetensors gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "BF16",
            Self::F16 => "F16",
            Self::F32 => "F32",
        }
    }

    /// What scales become when they are stored: the nearest number, but never 0 nor infinite.
    #[inline(always)]
    pub(crate) fn scales(self, exact: &Lanes) -> Lanes {
        let held = exact.map(|one| clipped(one, f32::MIN_POSITIVE, MOST));
        match self {
            Self::F32 => held,
            Self::Bf16 => held.map(|one| {
                let bits = one.to_bits();
                f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
            }),
            Self::F16 => held.map(|one| {
                let one = clipped(one, HALF_LEAST, 65504.0);
                // 1.5 · 2^13 times the power of two of a number has steps 2^-10 of that.
                let power = (one.to_bits() & 0x7f80_0000).max(113 << 23);
                let far = f32::from_bits(power + (13 << 23) + 0x40_0000);
                (one + far) - far
            }),
        }
    }

    /// [`Self::scales`] of one.
    #[inline(always)]
    pub(crate) fn scale(self, exact: f32) -> f32 {
        self.scales(&[exact; LANES])[0]
    }

    /// Elements as they are: each of these formats is a part of `f32`.
    #[inline(always)]
    pub fn widen(self, bytes: &[u8], to: &mut Vec<f32>) {
        to.clear();
        let two = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
        match self {
            Self::Bf16 => {
                let each = bytes.as_chunks::<2>().0.iter();
                to.extend(each.map(|pair| f32::from_bits(u32::from(two(pair)) << 16)));
            }
            Self::F16 => {
                let each = bytes.as_chunks::<2>().0.iter();
                to.extend(each.map(|pair| half(two(pair))));
            }
            Self::F32 => {
                let each = bytes.as_chunks::<4>().0.iter();
                to.extend(each.map(|four| f32::from_le_bytes(*four)));
            }
        }
    }

    /// The nearest numbers that can be stored, ties to even, as bytes: as many as both have room for.
    #[inline(always)]
    pub fn narrow(self, values: &[f32], to: &mut [u8]) {
        match self {
            Self::F32 => {
                for (four, value) in to.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                    *four = value.to_le_bytes();
                }
            }
            Self::Bf16 => {
                for (pair, value) in to.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                    *pair = bf16(*value).to_le_bytes();
                }
            }
            Self::F16 => {
                for (pair, value) in to.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                    *pair = f16(*value).to_le_bytes();
                }
            }
        }
    }

    /// The nearest number that can be stored, ties to even.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::Bf16 => f32::from_bits(u32::from(bf16(value)) << 16),
            Self::F16 => half(f16(value)),
        }
    }

    /// A number that can be stored, as its bytes.
    pub fn put(self, value: f32, to: &mut Vec<u8>) {
        match self {
            Self::F32 => to.extend(value.to_le_bytes()),
            Self::Bf16 => to.extend(bf16(value).to_le_bytes()),
            Self::F16 => to.extend(f16(value).to_le_bytes()),
        }
    }
}

/// `f32` to bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// An IEEE half.
#[inline(always)]
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff) << 13;
    // Its exponent is 112 less than that of `f32`; subnormal numbers become normal by the multiplication.
    let value = if rest >= 0x0f80_0000 {
        f32::from_bits(rest | 0x7f80_0000)
    } else {
        f32::from_bits(rest) * f32::from_bits((254 - 15) << 23)
    };
    f32::from_bits(sign | value.to_bits())
}

/// `f32` to an IEEE half, ties to even; too large is infinite.
#[inline(always)]
fn f16(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let size = value.abs();
    let code = if size.is_nan() {
        0x7e00
    } else if size >= 65520.0 {
        0x7c00
    } else if size < f32::from_bits(113 << 23) {
        // Subnormal: a step is 2^-24, which is that of numbers from 0.5 to 1.
        (size + 0.5).to_bits() - 0.5_f32.to_bits()
    } else {
        let bits = size.to_bits();
        ((bits + 0xfff + ((bits >> 13) & 1)) >> 13) - (112 << 10)
    };
    sign | code as u16
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "codes are exact")]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let value = half(bits);
            if value.is_nan() {
                assert!(half(f16(value)).is_nan());
            } else {
                assert_eq!(f16(value), bits, "{value}");
            }
        }
    }

    #[test]
    fn every_bfloat_comes_back() {
        for bits in 0..=u16::MAX {
            let value = f32::from_bits(u32::from(bits) << 16);
            if !value.is_nan() {
                assert_eq!(bf16(value), bits);
            }
        }
    }

    #[test]
    fn ties_go_to_even() {
        // Half of a step above 1 and above its neighbour.
        assert_eq!(Stored::Bf16.round(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(Stored::Bf16.round(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(Stored::F16.round(1.0 + 1.0 / 2048.0), 1.0);
        assert_eq!(Stored::F16.round(70000.0), f32::INFINITY);
    }
}
