//! Idle hours, and the hours of the week in which something happens.

use gpuwise_domain::usage::{IdleUse, Window, rules::Rules};

/// Hours of a week.
const WEEK: usize = 168;

/// Idle hours among the largest compute of each hour of a window; NaN is unknown and ends a stretch.
pub fn idle_of(hourly: &[f32], window: Window, rules: &Rules) -> IdleUse {
    let mut found = IdleUse::default();
    let mut begin = None;
    for (hour, value) in hourly.iter().chain([&f32::NAN]).enumerate() {
        if f64::from(*value) < rules.idle_below {
            found.hours += 1.0;
            begin.get_or_insert(hour);
            continue;
        }
        let Some(from) = begin.take() else { continue };
        let length = (hour - from) as f64;
        if length >= rules.stretch_hours {
            found.in_stretches += length;
            found.stretches += 1;
            let weekend = (from..hour).filter(|hour| window.is_weekend(*hour));
            found.weekend += weekend.count() as f64;
        }
    }
    found
}

/// Hours of the week, from Sunday midnight (UTC), in which something happened before the last seven
/// days; and how many hours of the last seven days were busy outside of them: what a schedule made a
/// week ago would have missed. Nothing where less than two weeks were seen.
pub fn busy_hours(hourly: &[f32], window: Window, rules: &Rules) -> Option<(Vec<u8>, u32)> {
    let before = hourly
        .len()
        .checked_sub(WEEK)
        .filter(|before| *before >= WEEK)?;
    let busy = |value: f32| f64::from(value) >= rules.idle_below;
    let of_week = |hour: usize| {
        let hours = window.start.div_euclid(3600) + i64::try_from(hour).unwrap_or(0);
        // The first of January 1970 was a Thursday.
        usize::try_from((hours + 4 * 24).rem_euclid(168)).unwrap_or(0)
    };
    let mut earlier = [false; WEEK];
    for (hour, value) in hourly.iter().enumerate().take(before) {
        if let Some(slot) = earlier.get_mut(of_week(hour)) {
            *slot |= busy(*value);
        }
    }
    let mut all = earlier;
    let mut surprises = 0;
    for (hour, value) in hourly.iter().enumerate().skip(before) {
        let at = of_week(hour);
        if busy(*value) && !earlier.get(at).copied().unwrap_or(false) {
            surprises += 1;
            if let Some(slot) = all.get_mut(at) {
                *slot = true;
            }
        }
    }
    let pattern = (0_u8..)
        .zip(all)
        .filter(|(_, busy)| *busy)
        .map(|(hour, _)| hour);
    Some((pattern.collect(), surprises))
}
