use crate::ParseQuantityError;
use alloc::{format, string::String};

/// Splits `12.5 GiB` into the number and the trimmed unit.
///
/// Signs, infinities, `NaN` and thousands separators are not numbers here.
pub(crate) fn number_and_unit<'a>(
    text: &'a str,
    expected: &str,
) -> Result<(f64, &'a str), ParseQuantityError> {
    let trimmed = text.trim();
    let fail = || ParseQuantityError::new(text, expected);
    let end = number_end(trimmed.as_bytes());
    let (number, unit) = trimmed.split_at(end);
    let value: f64 = number.parse().map_err(|_| fail())?;
    if !value.is_finite() {
        return Err(fail());
    }
    Ok((value, unit.trim()))
}

/// The length of the leading decimal number, with an exponent if one follows.
fn number_end(bytes: &[u8]) -> usize {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if end > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Writes a value with at most `digits` significant digits, thousands grouped
/// by commas from 10,000 up: `0.0123`, `4.5`, `310`, `12,000`; an exponent only where nobody would count the zeros,
/// below a billionth: `2.2e-12`.
///
/// ```
/// assert_eq!(gpuwise_units::significant(0.012345, 3), "0.0123");
/// assert_eq!(gpuwise_units::significant(4.504, 3), "4.5");
/// assert_eq!(gpuwise_units::significant(12345.0, 3), "12,300");
/// ```
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -9 {
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        return format!("{mantissa}e{exponent}");
    }
    let decimals =
        usize::try_from(i32::try_from(digits).unwrap_or(i32::MAX) - 1 - exponent).unwrap_or(0);
    let rounded: f64 = format!("{mantissa}e{exponent}").parse().unwrap_or(value);
    let mut plain = format!("{rounded:.decimals$}");
    if plain.contains('.') {
        plain.truncate(plain.trim_end_matches('0').trim_end_matches('.').len());
    }
    if plain.contains('.') || plain.trim_start_matches('-').len() < 5 {
        return plain;
    }
    group_thousands(&plain)
}

/// Puts commas between groups of three digits of a whole number.
///
/// ```
/// assert_eq!(gpuwise_units::group_thousands("1234567"), "1,234,567");
/// ```
pub fn group_thousands(whole: &str) -> String {
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", whole),
    };
    let mut out = String::from(sign);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
