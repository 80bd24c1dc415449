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
        let to = (
            &mut all_codes[at * codes..][..codes],
            &mut all_bits[at * bits..][..bits],
        );
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

struct Taken {
    power: f64,
    lost: f64,
    finite: bool,
}

/// A row, whose elements have `N` bytes; there are no bits where it has its zeros.
#[inline(always)]
fn taken<const N: usize>(
    row: &mut Row,
    stored: Stored,
    bytes: &[u8],
    (codes, bits): (&mut [u8], &mut [u8]),
) -> Taken {
    stored.widen(bytes, &mut row.values);
    let all = seen(&row.values);
    row.removed.resize(row.values.len(), 0.0);
    let (elements, _) = bytes.as_chunks::<N>();
    let (codes, _) = codes.as_chunks_mut::<N>();
    let (values, last_values) = row.values.as_chunks::<LANES>();
    let (removed, last_removed) = row.removed.as_chunks_mut::<LANES>();
    let (elements, last_elements) = elements.as_chunks::<LANES>();
    let (mut tail, mut last) = ([0.0; LANES], [0.0; LANES]);
    tail[..last_values.len()].copy_from_slice(last_values);
    if bits.is_empty() {
        let (codes, last_codes) = codes.as_chunks_mut::<LANES>();
        let runs = values.iter().zip(removed).zip(elements.iter().zip(codes));
        for ((values, removed), (elements, codes)) in runs {
            zeroed(elements, &staying(values, removed), codes);
        }
        let stays = staying(&tail, &mut last);
        zeroed(last_elements, &stays, last_codes);
    } else {
        let (codes, last_codes) = codes.as_chunks_mut::<{ LANES / 2 }>();
        let (bits, last_bits) = bits.split_at_mut(values.len() * (LANES / 8));
        let (bits, _) = bits.as_chunks_mut::<{ LANES / 8 }>();
        let runs = values.iter().zip(removed).zip(elements.iter().zip(codes));
        for (((values, removed), (elements, codes)), bits) in runs.zip(bits) {
            let all = mask(&staying(values, removed));
            *bits = all.to_le_bytes();
            pairs(elements, all, codes);
        }
        let there = ((1_u32 << last_elements.len()) - 1) as u16;
        let all = mask(&staying(&tail, &mut last)) & there;
        last_bits.copy_from_slice(&all.to_le_bytes()[..last_bits.len()]);
        pairs(last_elements, all, last_codes);
    }
    last_removed.copy_from_slice(&last[..last_removed.len()]);
    Taken {
        power: all.power,
        lost: seen(&row.removed).power,
        finite: all.finite,
    }
}

/// Ones for the two largest of each four, 0 for the others, which are put aside.
#[inline(always)]
fn staying(values: &[f32; LANES], removed: &mut [f32; LANES]) -> [u32; LANES] {
    // As numbers, bits are in the order of sizes.
    let size = values.map(|value| (value.to_bits() & 0x7fff_ffff).cast_signed());
    let mut before = [0_u32; LANES];
    for step in 1..GROUP {
        for lane in 0..LANES {
            let at = lane % GROUP;
            let other = (at + step) % GROUP;
            // Of two that are equal the first goes before.
            let first = i32::from(other < at);
            let more = size[lane - at + other].wrapping_add(first) > size[lane];
            before[lane] += u32::from(more);
        }
    }
    let stays = before.map(|before| if before < LEFT as u32 { u32::MAX } else { 0 });
    for lane in 0..LANES {
        removed[lane] = f32::from_bits(values[lane].to_bits() & !stays[lane]);
    }
    stays
}

/// A bit for each.
#[inline(always)]
fn mask(stays: &[u32; LANES]) -> u16 {
    let mut all = 0;
    for (lane, stays) in stays.iter().enumerate() {
        all |= (stays & 1) << lane;
    }
    all as u16
}

#[inline(always)]
fn zeroed<const N: usize>(elements: &[[u8; N]], stays: &[u32; LANES], codes: &mut [[u8; N]]) {
    for ((element, code), stays) in elements.iter().zip(codes).zip(stays) {
        let mut word = [0; 4];
        word[..N].copy_from_slice(element);
        let word = u32::from_le_bytes(word) & stays;
        code.copy_from_slice(&word.to_le_bytes()[..N]);
    }
}

/// The two of each four whose bits are set.
#[inline(always)]
fn pairs<const N: usize>(elements: &[[u8; N]], bits: u16, codes: &mut [[u8; N]]) {
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
