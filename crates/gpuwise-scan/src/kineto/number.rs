//! Numbers as they are written: times exactly into nanoseconds, counts exactly into integers.

/// Digits beyond which a time is out of any clock's range anyway.
const MOST_DIGITS: usize = 36;

/// Microseconds as written (`1712195495519689.203`, `2.5e3`) in whole nanoseconds, rounded half to
/// even; `None` where it is no finite number or beyond 64 bits.
pub(super) fn nanoseconds(text: &[u8]) -> Option<i64> {
    quick_nanoseconds(text).or_else(|| decimal(text, 3))
}

/// Digits with up to three decimals: nearly every time there is.
fn quick_nanoseconds(text: &[u8]) -> Option<i64> {
    let mut whole: i64 = 0;
    let mut at = 0;
    while at <= 16
        && let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        whole = whole * 10 + i64::from(digit);
        at += 1;
    }
    // Microseconds since 1970 have 16 digits until the year 2286.
    if at == 0 || at > 16 {
        return None;
    }
    match text.get(at..)? {
        [] => whole.checked_mul(1000),
        [b'.', decimals @ ..] if !decimals.is_empty() && decimals.len() <= 3 => {
            let mut fraction: i64 = 0;
            for byte in decimals {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                fraction = fraction * 10 + i64::from(digit);
            }
            let scale = match decimals.len() {
                1 => 100,
                2 => 10,
                _ => 1,
            };
            whole.checked_mul(1000)?.checked_add(fraction * scale)
        }
        _ => None,
    }
}

/// A decimal number times 10^`scale`, rounded half to even.
fn decimal(text: &[u8], scale: i32) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (
            text.get(..at)?,
            std::str::from_utf8(text.get(at + 1..)?).ok()?,
        ),
        None => (text, "0"),
    };
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, decimals) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(at) => (mantissa.get(..at)?, mantissa.get(at + 1..)?),
        None => (mantissa, &[][..]),
    };
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    // The point stands before digit `point` of all digits.
    let point = i32::try_from(whole.len())
        .ok()?
        .checked_add(exponent)?
        .checked_add(scale)?;
    let mut value: i128 = 0;
    let mut digits = 0;
    let mut first_left = None;
    let mut rest_is_zero = true;
    for (index, byte) in whole.iter().chain(decimals).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        if i32::try_from(index).ok()? < point {
            if value > 0 || digit > 0 {
                digits += 1;
            }
            if digits > MOST_DIGITS {
                return None;
            }
            value = value * 10 + i128::from(digit);
        } else if first_left.is_none() && i32::try_from(index).ok()? == point {
            first_left = Some(digit);
        } else {
            rest_is_zero &= digit == 0;
        }
    }
    let written = i32::try_from(whole.len() + decimals.len()).ok()?;
    for _ in written..point.max(written) {
        if value == 0 {
            break;
        }
        digits += 1;
        if digits > MOST_DIGITS {
            return None;
        }
        value *= 10;
    }
    let up = match first_left {
        Some(digit) => digit > 5 || (digit == 5 && (!rest_is_zero || value % 2 == 1)),
        None => false,
    };
    value += i128::from(up);
    i64::try_from(if negative { -value } else { value }).ok()
}

/// A value without its quotes, if it has any: old writers quote numbers.
pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

/// A whole number; one that is written as a real counts where it is whole.
pub(super) fn integer(value: &[u8]) -> Option<i64> {
    let text = unquoted(value);
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return slow_integer(text);
    }
    let value = digits
        .iter()
        .fold(0_i64, |value, byte| value * 10 + i64::from(byte - b'0'));
    Some(if negative { -value } else { value })
}

fn slow_integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let value: f64 = text.parse().ok()?;
    // Beyond 2⁵³ a real no longer says which integer was meant.
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
}

/// A count; `None` where it is negative or no whole number.
pub(super) fn count(value: &[u8]) -> Option<u64> {
    match integer(value) {
        Some(value) => u64::try_from(value).ok(),
        // Addresses and identifiers may need all 64 bits.
        None => std::str::from_utf8(unquoted(value)).ok()?.parse().ok(),
    }
}

/// A finite real number.
pub(super) fn real(value: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(unquoted(value)).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}
