//! `Retry-After`: how long a server asks us to stay away (RFC 9110, section 10.2.3).

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use std::time::Duration;

/// How long the value of the header asks to wait, from `now` on: seconds, or a date. Any number of seconds
/// is a time, however large; a date that has passed is none at all. What is neither says nothing.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than the type holds is longer than anybody waits.
        return Some(value.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let until = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        let check = |value: &str, seconds: Option<u64>| {
            let expect = seconds.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), expect, "{value:?}");
        };
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("18446744073709551615", Some(u64::MAX));
        check("Sat, 21 Nov 2026 12:01:30 GMT", Some(90));
        check("Sat, 21 Nov 2026 11:59:59 GMT", Some(0));
        for neither in ["", "-1", "soon", "1.5", "Sat, 21 Nov 20261 12:01:30 GMT"] {
            check(neither, None);
        }
        let beyond = "99999999999999999999999999";
        assert_eq!(retry_after(beyond, now), Some(Duration::MAX));
    }
}
