//! Times as files write them.

use crate::traffic::timestamp::nanoseconds;
use gpuwise_domain::profile::joined::RecordingClock;

/// Numbers below are seconds from a beginning of their own: as seconds since 1970 they lie in 1973.
const EARLIEST: f64 = 1e8;

/// Seconds as nanoseconds; what is too small to be a date counts from a beginning of its own.
pub(super) fn of_number(number: f64, zoneless: bool) -> (i64, RecordingClock) {
    // Milliseconds, microseconds and nanoseconds since 1970 are as much larger.
    let size = number.abs();
    let to_ns = if size < 1e11 {
        1e9
    } else if size < 1e14 {
        1e6
    } else if size < 1e17 {
        1e3
    } else {
        1.0
    };
    let clock = if size < EARLIEST {
        RecordingClock::Start
    } else {
        RecordingClock::Wall { zoneless }
    };
    ((number * to_ns).round() as i64, clock)
}

/// A number, or a date with a time of day.
pub(super) fn of_text(text: &str) -> Option<(i64, RecordingClock)> {
    let text = text.trim().trim_matches('"');
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then(|| of_number(number, false));
    }
    let bare = text
        .strip_suffix("UTC")
        .or_else(|| text.strip_suffix("GMT"));
    let written = bare.unwrap_or(text).trim().replace('/', "-");
    let at_ns = i64::try_from(nanoseconds(&written)?).ok()?;
    let clock = written
        .split_once([' ', 'T'])
        .map_or("", |(_, clock)| clock);
    let zoned = bare.is_some() || clock.ends_with(['Z', 'z']) || clock.contains(['+', '-']);
    Some((at_ns, RecordingClock::Wall { zoneless: !zoned }))
}
