//! Quantities as the API writes them: `500m`, `64Gi`, `1e3`; exactly, in whole or thousandths.

/// Why a quantity is not a number here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum QuantityError {
    /// More than 2^63 - 1, the most that Kubernetes counts exactly.
    #[error("it is more than 9223372036854775807, the most that Kubernetes counts")]
    Overflow,
    #[error("it is negative")]
    Negative,
    #[error("it is no quantity such as 8, 500m or 64Gi")]
    Malformed,
}

/// In thousandths, rounded up as Kubernetes does.
///
/// # Errors
/// When it is no quantity, negative, or too large.
pub fn milli(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 3)
}

/// In whole, rounded up as Kubernetes does.
///
/// # Errors
/// When it is no quantity, negative, or too large.
pub fn whole(text: &str) -> Result<u64, QuantityError> {
    scaled(text, 0)
}

/// `text` × 10^`places`, rounded up.
fn scaled(text: &str, places: i32) -> Result<u64, QuantityError> {
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (digits, fraction) = number.split_once('.').unwrap_or((number, ""));
    if digits.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(QuantityError::Malformed);
    }
    let (ten, two) = unit(suffix).ok_or(QuantityError::Malformed)?;
    let mut value: u128 = 0;
    let mut cut = 0_i32;
    let mut inexact = false;
    for (at, digit) in digits.bytes().chain(fraction.bytes()).enumerate() {
        let digit = u128::from(digit - b'0');
        // 25 digits: no product below wraps round. More of a fraction only say that there is more.
        if value >= 10_u128.pow(24) {
            if at < digits.len() {
                return Err(QuantityError::Overflow);
            }
            inexact |= digit > 0;
            continue;
        }
        value = value * 10 + digit;
        cut += i32::from(at >= digits.len());
    }
    if value == 0 && !inexact {
        return Ok(0);
    }
    if negative {
        return Err(QuantityError::Negative);
    }
    let up = value
        .checked_shl(two)
        .filter(|shifted| shifted >> two == value)
        .ok_or(QuantityError::Overflow)?;
    rounded(up, ten + places - cut, inexact)
}

/// `value` × 10^`power`, rounded up.
fn rounded(value: u128, power: i32, inexact: bool) -> Result<u64, QuantityError> {
    let step = 10_u128.checked_pow(power.unsigned_abs());
    let exact = if power >= 0 {
        step.and_then(|step| value.checked_mul(step))
            .ok_or(QuantityError::Overflow)?
    } else {
        step.map_or(1, |step| value.div_ceil(step))
    };
    let exact = exact + u128::from(inexact && power >= 0);
    u64::try_from(exact)
        .ok()
        .filter(|count| i64::try_from(*count).is_ok())
        .ok_or(QuantityError::Overflow)
}

/// The powers of ten and of two that a suffix stands for.
fn unit(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E'])?;
            let power: i32 = power.parse().ok()?;
            // More would be beyond what is counted anyhow.
            (power.clamp(-60, 60), 0)
        }
    })
}
