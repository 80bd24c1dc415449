//! Points in time: numbers in a unit, and dates with times as Azure's tables write them.

use jiff::{civil::Date, tz::TimeZone};

/// A decimal number times a power of ten, exactly: `1777142984.5786855` with 9 places is in
/// nanoseconds from seconds. What is smaller than one is rounded.
pub(super) fn decimal(text: &str, places: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !plain(whole) || !plain(fraction) {
        // Exponents, infinities and what is no number.
        return super::columns::scaled(text.parse().ok()?, places);
    }
    if whole.len() > 24 {
        return None;
    }
    let digit =
        |place: usize| i128::from(fraction.as_bytes().get(place).map_or(0, |byte| byte - b'0'));
    let start = whole
        .bytes()
        .fold(0, |sum, byte| sum * 10 + i128::from(byte - b'0'));
    let sum = (0..places as usize).fold(start, |sum, place| sum * 10 + digit(place));
    let rounded = sum + i128::from(digit(places as usize) >= 5);
    Some(if negative { -rounded } else { rounded })
}

/// Nanoseconds from 1970 of `2023-11-16 18:17:03.9799600`, with `T` for the space, and a `Z` or an
/// offset such as `+00:00` after it if need be.
pub fn nanoseconds(text: &str) -> Option<i128> {
    let text = text.trim();
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('-');
    let (year, month, day) = (
        digits(parts.next()?, 4)?,
        digits(parts.next()?, 2)?,
        digits(parts.next()?, 2)?,
    );
    if parts.next().is_some() {
        return None;
    }
    // No thirty-first of February.
    let date = Date::new(year as i16, month as i8, day as i8).ok()?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    let (clock, offset) = split_offset(time)?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':');
    let hour: i64 = digits(parts.next()?, 2)?;
    let minute: i64 = digits(parts.next()?, 2)?;
    let second: i64 = digits(parts.next()?, 2)?;
    // A leap second counts as the next.
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = midnight + hour * 3600 + minute * 60 + second - offset;
    Some(i128::from(seconds) * 1_000_000_000 + fraction_of(fraction)?)
}

/// Exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

/// Up to nine decimals as nanoseconds; more are cut.
fn fraction_of(text: &str) -> Option<i128> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits {
        return None;
    }
    let digit = |position: usize| {
        text.as_bytes()
            .get(position)
            .map_or(0, |byte| i128::from(byte - b'0'))
    };
    Some((0..9).fold(0, |sum, position| sum * 10 + digit(position)))
}

/// The time of day, and the seconds that its zone is ahead.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (clock, offset) = time.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':').unwrap_or((&offset[1..], "00"));
    let ahead = digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60;
    Some((
        clock,
        if offset.starts_with('-') {
            -ahead
        } else {
            ahead
        },
    ))
}
