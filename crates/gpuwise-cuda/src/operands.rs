//! What is multiplied: numbers like any others, for zeros take less power and so run faster.

use crate::work::Precision;
use gpuwise_units::RandomStream;

/// Bytes of a block of operands that is repeated over a buffer.
pub(crate) const BLOCK: usize = 4 << 20;

/// A block of numbers of random sign between 1 and 2 in size, as bytes of little-endian elements.
pub(crate) fn block(precision: Precision, bytes: usize) -> Vec<u8> {
    let mut stream = RandomStream::new(0, "operands", precision.bytes());
    let mut block = Vec::with_capacity(bytes + 8);
    while block.len() < bytes {
        let draw = stream.next_u64();
        match precision {
            Precision::Bf16 | Precision::Fp16 => {
                for shift in [0, 16, 32, 48] {
                    let bits = (draw >> shift) as u16;
                    // The exponent of 1, of 8 and of 5 bits.
                    let number = match precision {
                        Precision::Bf16 => (bits & 0x807f) | 0x3f80,
                        _ => (bits & 0x83ff) | 0x3c00,
                    };
                    block.extend_from_slice(&number.to_le_bytes());
                }
            }
            Precision::Tf32 | Precision::Fp32 => {
                for shift in [0, 32] {
                    let number = ((draw >> shift) as u32 & 0x807f_ffff) | 0x3f80_0000;
                    block.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
    block.truncate(bytes);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an element of two bytes with so many bits of mantissa and this bias of the exponent.
    fn value(bits: u16, mantissa: u32, offset: i32) -> f64 {
        let fraction = f64::from(bits & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
        let exponent = i32::from((bits & 0x7fff) >> mantissa) - offset;
        let size = (1.0 + fraction) * f64::from(exponent).exp2();
        if bits & 0x8000 == 0 { size } else { -size }
    }

    #[test]
    fn operands_are_ordinary_numbers() {
        let check = |precision: Precision, read: &dyn Fn(&[u8]) -> f64| {
            let block = block(precision, 4096);
            assert_eq!(block.len(), 4096);
            let width = usize::try_from(precision.bytes()).expect("small");
            let numbers: Vec<f64> = block.chunks(width).map(read).collect();
            assert!(numbers.iter().all(|x| (1.0..2.0).contains(&x.abs())));
            let negative = numbers.iter().filter(|x| **x < 0.0).count();
            assert!((numbers.len() / 3..numbers.len() * 2 / 3).contains(&negative));
        };
        let two = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        check(Precision::Bf16, &|bytes| value(two(bytes), 7, 127));
        check(Precision::Fp16, &|bytes| value(two(bytes), 10, 15));
        let four =
            |bytes: &[u8]| f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        check(Precision::Tf32, &four);
        check(Precision::Fp32, &four);
    }
}
