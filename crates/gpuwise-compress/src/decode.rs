//! Parts to numbers again, as engines read them.

use crate::{PartKind, Scheme, Stored, Strategy, float4, float8, integers::unpacked, sparse};
use std::collections::BTreeMap;

/// The elements of a matrix, row by row, of all of its parts; `None` where a part is missing or of another size. Scales
/// are multiplied in the numbers that they are stored in.
pub fn decode(
    scheme: Scheme,
    (rows, columns): (u64, u64),
    stored: Stored,
    parts: &BTreeMap<PartKind, Vec<u8>>,
) -> Option<Vec<f32>> {
    for part in scheme.parts(rows, columns, stored).ok()? {
        let there = parts.get(&part.kind)?;
        if there.len() as u64 != part.bytes() {
            return None;
        }
    }
    let columns = usize::try_from(columns).ok()?;
    if let Scheme::TwoFour(how) = scheme {
        return sparse::decode(how, stored, (usize::try_from(rows).ok()?, columns), parts);
    }
    let count = usize::try_from(rows).ok()?.checked_mul(columns)?;
    let scales = scales(scheme, stored, parts)?;
    let scale_of = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let index = match scheme.strategy() {
            Strategy::Tensor => 0,
            Strategy::Channel => row,
            Strategy::Group(group) => at / group as usize,
            Strategy::Block(height, width) => {
                let across = columns.div_ceil(width as usize);
                row / height as usize * across + column / width as usize
            }
        };
        (index, scales[index])
    };
    let codes = parts
        .get(&PartKind::Weight)
        .or_else(|| parts.get(&PartKind::Packed))?;
    let nibble = |at: usize| (codes[at / 2] >> (4 * (at % 2))) & 15;
    let value = |at: usize| {
        let (index, scale) = scale_of(at);
        match scheme {
            Scheme::Fp8(_) => float8::value(codes[at]) * scale,
            Scheme::Int8(_) => f32::from(i8::from_le_bytes([codes[at]])) * scale,
            Scheme::Packed {
                bits, symmetric, ..
            } => {
                let words = (columns * bits as usize).div_ceil(32) * 4;
                let row = &codes[at / columns * words..];
                let whole = unpacked(row, at % columns, bits);
                let zero = match parts.get(&PartKind::ZeroPoint) {
                    Some(zeros) if !symmetric => {
                        zero_of(zeros, at / columns, index, columns, scheme)
                    }
                    _ => 0,
                };
                stored.round((whole - zero) as f32 * scale)
            }
            Scheme::Nvfp4 | Scheme::Mxfp4 => float4::value(nibble(at)) * scale,
            // They were read above.
            Scheme::TwoFour(_) => 0.0,
        }
    };
    Some((0..count).map(value).collect())
}

/// The zero point of a group: words of 32 bits hold those of several rows.
fn zero_of(zeros: &[u8], row: usize, index: usize, columns: usize, scheme: Scheme) -> i32 {
    let Scheme::Packed { bits, .. } = scheme else {
        return 0;
    };
    let groups = scheme.group().map_or(1, |group| columns / group as usize);
    let together = (32 / bits) as usize;
    let word = row / together * groups + index % groups;
    unpacked(&zeros[word * 4..], row % together, bits)
}

fn scales(scheme: Scheme, stored: Stored, parts: &BTreeMap<PartKind, Vec<u8>>) -> Option<Vec<f32>> {
    let bytes = parts.get(&PartKind::Scale)?;
    let mut scales = Vec::new();
    match scheme {
        Scheme::Fp8(_) | Scheme::Int8(_) => Stored::F32.widen(bytes, &mut scales),
        Scheme::Packed { .. } => stored.widen(bytes, &mut scales),
        Scheme::Nvfp4 => {
            let mut global = Vec::new();
            Stored::F32.widen(parts.get(&PartKind::GlobalScale)?, &mut global);
            let global = *global.first()?;
            scales.extend(bytes.iter().map(|code| float8::value(*code) / global));
        }
        Scheme::Mxfp4 => {
            scales.extend(bytes.iter().map(|code| power_of_two(*code)));
        }
        Scheme::TwoFour(_) => return None,
    }
    Some(scales)
}

/// 2^(code - 127), and NaN of 255. OCP Microscaling Formats 1.0, E8M0.
fn power_of_two(code: u8) -> f32 {
    match code {
        0 => f32::MIN_POSITIVE / 2.0,
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::power_of_two;

    #[test]
    fn exponents_are_as_the_format_has_them() {
        let of = |code: u8| f64::from(power_of_two(code));
        for code in 0..255 {
            assert_eq!(
                of(code).to_bits(),
                2.0_f64.powi(i32::from(code) - 127).to_bits()
            );
        }
        assert!(of(255).is_nan());
    }
}
