//! Points in time as logs write them.

use crate::traffic::timestamp;
use jiff::Timestamp;

/// The last nanosecond that is taken for a time: year 2262.
const LATEST: i128 = i64::MAX as i128;

/// Nanoseconds from 1970 of a number whose size tells its unit: seconds, milliseconds, microseconds
/// or nanoseconds.
pub(super) fn of_number(value: f64) -> Option<i64> {
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    let scale = if value < 1e11 {
        1e9
    } else if value < 1e14 {
        1e6
    } else if value < 1e17 {
        1e3
    } else {
        1.0
    };
    // Whole seconds and their fraction apart: together they are more than a real holds.
    let whole = value.trunc();
    let nanoseconds = whole as i128 * scale as i128 + ((value - whole) * scale).round() as i128;
    (nanoseconds <= LATEST).then_some(nanoseconds as i64)
}

/// Nanoseconds from 1970 of a text: a number, ISO 8601, or `21/Nov/2026:16:00:00 +0100`. Without a
/// zone it is taken for UTC. `None` where it is no time from 1970 to 2262.
pub fn nanoseconds_of(text: &str) -> Option<i64> {
    let text = text.trim().trim_matches(['[', ']']);
    if let Ok(whole) = text.parse::<u64>()
        && whole >= 100_000_000_000_000_000
    {
        return i64::try_from(whole).ok();
    }
    if let Ok(value) = text.parse::<f64>() {
        return of_number(value);
    }
    let nanoseconds = timestamp::nanoseconds(&iso(text)?)?;
    (0..=LATEST)
        .contains(&nanoseconds)
        .then_some(nanoseconds as i64)
}

/// The text in the form `2026-11-21T16:00:00+01:00`.
fn iso(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let mut text = text.replace(" UTC", "Z");
    if let Some((date, clock)) = text.split_once(':')
        && let [day, month, year] = date.split('/').collect::<Vec<_>>()[..]
    {
        let month = MONTHS
            .iter()
            .position(|name| name.eq_ignore_ascii_case(month))?;
        text = format!("{year}-{:02}-{day}T{}", month + 1, clock.replace(' ', ""));
    }
    // `+0100` as `+01:00`.
    if let Some(at) = text.rfind(['+', '-'])
        && at > 10
        && text.len() == at + 5
        && text.is_char_boundary(at + 3)
    {
        let offset = text.split_off(at + 3);
        text = format!("{text}:{offset}");
    }
    Some(text)
}

/// A time in whole seconds since 1970 as `2026-11-21T16:00:00Z`; beyond the calendar, its nearest end.
pub fn rfc3339(seconds: i64) -> String {
    let end = if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_second(seconds).unwrap_or(end).to_string()
}
