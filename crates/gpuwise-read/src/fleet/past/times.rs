//! Times as accounting writes them, in seconds.

/// Days from 1970-01-01 to a day of the Gregorian calendar (Hinnant's civil-from-days, backwards).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2026-11-03T10:11:12`, with a space or a `Z`, or seconds since 1970 or since the trace began. Without a
/// zone it is taken as UTC: only differences count. `None`: it is none, such as `Unknown`.
pub(super) fn moment(text: &str) -> Option<f64> {
    let text = text.trim().trim_end_matches('Z');
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    let (date, clock) = text.split_once(['T', ' '])?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let clock = clock.split_once('+').map_or(clock, |(clock, _)| clock);
    let mut clock = clock.split(':');
    let hour: i64 = clock.next()?.parse().ok()?;
    let minute: i64 = clock.next()?.parse().ok()?;
    let second: f64 = clock.next().unwrap_or("0").parse().ok()?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let whole = days(year, month, day) * 86_400 + hour * 3600 + minute * 60;
    Some(whole as f64 + second)
}

/// `1-02:03:04`, `02:03:04`, `03:04`, or seconds.
pub(super) fn span(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<f64>().ok()?, clock),
        None => (0.0, text),
    };
    let mut seconds = 0.0;
    for part in clock.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(days * 86_400.0 + seconds)
}

/// `256G`, `256Gi`, `1.5T`, `4000M`, bytes where no unit is said: MiB.
pub(super) fn mib(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['n', 'c']);
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let factor = match unit.get(..1).unwrap_or("") {
        "K" | "k" => 1.0 / 1024.0,
        "M" => 1.0,
        "G" => 1024.0,
        "T" => 1024.0 * 1024.0,
        "" => 1.0 / 1_048_576.0,
        _ => return None,
    };
    Some((number * factor) as u64)
}
