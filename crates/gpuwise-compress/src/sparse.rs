//! Two of each four weights: of four neighbours in a row the two largest stay, bit for bit, the first ones where sizes are
//! equal. NVIDIA's sparse tensor cores read such rows. What is left is stored with zeros where the others were, or, as
//! `compressed-tensors` has it by the name `sparse-24-bitmask`, without them and with a bit for each element.

use crate::{
    Encoded, PartKind, SparseAs, Stored,
    wide::{LANES, seen, wide},
};
use std::collections::BTreeMap;

/// Neighbours of which [`LEFT`] stay.
pub(crate) const GROUP: usize = 4;
const LEFT: usize = 2;

/// A run of rows.
pub(crate) fn encode(how: SparseAs, stored: Stored, columns: usize, bytes: &[u8]) -> Encoded {
    let mut run = Encoded::default();
    let row = (columns * stored.bytes()).max(1);
    let rows = bytes.len() / row;
    let (codes, bits) = match how {
        SparseAs::Dense => (row, 0),
        SparseAs::Bitmask => (row / 2, columns.div_ceil(8)),
    };
    let (mut all_codes, mut all_bits) = (vec![0; rows * codes], vec![0; rows * bits]);
    let mut some = Row::default();
    for (at, row) in bytes.chunks_exact(row).enumerate() {
        let to = To {
            codes: &mut all_codes[at * codes..][..codes],
            bits: &mut all_bits[at * bits..][..bits],
        };
        let taken = wide(
            #[inline(always)]
            || match stored.bytes() {
                2 => taken::<2>(&mut some, stored, row, to),
                _ => taken::<4>(&mut some, stored, row, to),
            },
        );
        run.power += taken.power;
        run.lost += taken.lost;
        if !taken.finite {
            run.odd = true;
            break;
        }
    }
    match how {
        SparseAs::Dense => run.parts.insert(PartKind::Weight, all_codes),
        SparseAs::Bitmask => {
            run.parts.insert(PartKind::Bitmask, all_bits);
            run.parts.insert(PartKind::Compressed, all_codes)
        }
    };
    run
}

/// The numbers of a row, and those of them that go.
#[derive(Default)]
struct Row {
    values: Vec<f32>,
    removed: Vec<f32>,
}

/// Where a row goes; there are no bits of one with its zeros.
struct To<'a> {
    codes: &'a mut [u8],
    bits: &'a mut [u8],
}

struct Taken {
    power: f64,
    lost: f64,
    finite: bool,
}

/// A row, whose elements have `N` bytes.
#[inline(always)]
fn taken<const N: usize>(some: &mut Row, stored: Stored, bytes: &[u8], to: To<'_>) -> Taken {
    stored.widen(bytes, &mut some.values);
    let all = seen(&some.values);
    some.removed.resize(some.values.len(), 0.0);
    let (elements, _) = bytes.as_chunks::<N>();
    let (codes, _) = to.codes.as_chunks_mut::<N>();
    let runs = some.values.chunks(LANES).zip(elements.chunks(LANES));
    let runs = runs.zip(some.removed.chunks_mut(LANES));
    if to.bits.is_empty() {
        for (((values, elements), removed), codes) in runs.zip(codes.chunks_mut(LANES)) {
            let stays = staying(values, removed);
            for (lane, code) in codes.iter_mut().enumerate() {
                *code = if stays[lane] { elements[lane] } else { [0; N] };
            }
        }
    } else {
        let to = codes
            .chunks_mut(LANES / 2)
            .zip(to.bits.chunks_mut(LANES / 8));
        for (((values, elements), removed), (codes, bits)) in runs.zip(to) {
            let stays = staying(values, removed);
            let mut all = 0_u32;
            for lane in 0..LANES {
                all |= u32::from(stays[lane] && lane < values.len()) << lane;
            }
            bits.copy_from_slice(&all.to_le_bytes()[..bits.len()]);
            pairs(elements, all, codes);
        }
    }
    Taken {
        power: all.power,
        lost: seen(&some.removed).power,
        finite: all.finite,
    }
}

/// Which of some elements are the two largest of each four; the others are put aside.
#[inline(always)]
fn staying(values: &[f32], removed: &mut [f32]) -> [bool; LANES] {
    let mut some = [0.0; LANES];
    some[..values.len()].copy_from_slice(values);
    // As numbers, bits are in the order of sizes.
    let size = some.map(|value| (value.to_bits() & 0x7fff_ffff) as i32);
    let mut before = [0_i32; LANES];
    for step in 1..GROUP {
        for lane in 0..LANES {
            let at = lane % GROUP;
            let other = (at + step) % GROUP;
            // Of two that are equal the first goes before.
            let first = i32::from(other < at);
            let more = size[lane - at + other].wrapping_add(first) > size[lane];
            before[lane] += i32::from(more);
        }
    }
    let stays = before.map(|before| before < LEFT as i32);
    for lane in 0..LANES {
        some[lane] = if stays[lane] { 0.0 } else { some[lane] };
    }
    removed.copy_from_slice(&some[..removed.len()]);
    stays
}

/// The two of each four whose bits are set.
#[inline(always)]
fn pairs<const N: usize>(elements: &[[u8; N]], bits: u32, codes: &mut [[u8; N]]) {
    let (groups, _) = elements.as_chunks::<GROUP>();
    let (pairs, _) = codes.as_chunks_mut::<LEFT>();
    for (at, (group, pair)) in groups.iter().zip(pairs).enumerate() {
        let of = bits >> (GROUP * at) & 0xf | 0x10;
        let first = of.trailing_zeros() as usize % GROUP;
        let last = (of & of.wrapping_sub(1)).trailing_zeros() as usize % GROUP;
        *pair = [group[first], group[last]];
    }
}

/// The part that a matrix in the form with bits has once.
pub(crate) fn shape(rows: u64, columns: u64) -> Vec<u8> {
    [rows, columns].map(u64::to_le_bytes).concat()
}

/// The elements of `rows` × `columns` again; `None` where a row has not as many bits as it has elements left.
pub(crate) fn decode(
    how: SparseAs,
    stored: Stored,
    (rows, columns): (usize, usize),
    parts: &BTreeMap<PartKind, Vec<u8>>,
) -> Option<Vec<f32>> {
    let mut left = Vec::new();
    if how == SparseAs::Dense {
        stored.widen(parts.get(&PartKind::Weight)?, &mut left);
        return (left.len() == rows.checked_mul(columns)?).then_some(left);
    }
    stored.widen(parts.get(&PartKind::Compressed)?, &mut left);
    let bits = parts.get(&PartKind::Bitmask)?;
    let wide = columns.div_ceil(8);
    let mut values = vec![0.0; rows.checked_mul(columns)?];
    let each = bits
        .chunks_exact(wide)
        .zip(left.chunks_exact(columns / LEFT));
    for (row, (bits, left)) in values.chunks_exact_mut(columns).zip(each) {
        let mut left = left.iter();
        for (at, value) in row.iter_mut().enumerate() {
            if bits[at / 8] >> (at % 8) & 1 == 1 {
                *value = *left.next()?;
            }
        }
        if left.next().is_some() {
            return None;
        }
    }
    Some(values)
}
