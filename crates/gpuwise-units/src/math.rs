//! Arithmetic that several crates need.

/// The finaliser of SplitMix64: a bijection in which every bit of the result depends on every bit of
/// the argument.
pub const fn scrambled(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A step of SplitMix64 from this state: as [`scrambled`], and 0 does not stay 0.
pub const fn mixed(value: u64) -> u64 {
    scrambled(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// FNV-1a over bytes from a starting value: stable over platforms and versions, which the standard
/// hasher is not.
pub fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The usual start of [`fnv1a`].
pub const FNV1A: u64 = 0xcbf2_9ce4_8422_2325;

/// The median of sorted values: of an even number the mean of the middle two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some(f64::midpoint(lower, upper))
}

/// The value below which this share of sorted values lies, interpolated linearly between neighbours.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = *sorted.get(place as usize)?;
    let above = *sorted.get((place as usize + 1).min(last))?;
    Some(below + (above - below) * (place - (place as usize) as f64))
}
