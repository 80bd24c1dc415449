//! Integers of 4 or 8 bits, and several of them in one word.

/// Adding it takes what is behind the point from numbers below 2^22.
const WHOLE: f32 = 12_582_912.0;

/// The nearest whole number within bounds, ties to even.
#[inline]
pub(crate) fn rounded(value: f32, least: f32, most: f32) -> f32 {
    (value.clamp(least, most) + WHOLE) - WHOLE
}

/// Packs whole numbers from `-2^(bits-1)` on, 4 or 8 bits each, into words of 32 bits: the first one lowest.
pub(crate) fn pack(values: impl Iterator<Item = i32>, bits: u32, to: &mut Vec<u8>) {
    let (offset, mask) = (1 << (bits - 1), (1_u32 << bits) - 1);
    let (mut word, mut at) = (0_u32, 0);
    for value in values {
        word |= (((value + offset) as u32) & mask) << at;
        at += bits;
        if at == 32 {
            to.extend(word.to_le_bytes());
            (word, at) = (0, 0);
        }
    }
    if at > 0 {
        to.extend(word.to_le_bytes());
    }
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
