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

/// The hour of the week, from Sunday midnight (UTC), of an hour of a window.
fn of_week(window: Window, hour: usize) -> usize {
    let hours = window.start.div_euclid(3600) + i64::try_from(hour).unwrap_or(0);
    // The first of January 1970 was a Thursday.
    usize::try_from((hours + 4 * 24).rem_euclid(168)).unwrap_or(0)
}

/// What is known of an hour of the week.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    observed: bool,
    busy: bool,
}

impl Slot {
    fn note(&mut self, value: f32, rules: &Rules) {
        self.observed |= !value.is_nan();
        self.busy |= f64::from(value) >= rules.idle_below;
    }

    /// Whether it was seen, and never with something to do: what is not known is not idle.
    const fn is_idle(self) -> bool {
        self.observed && !self.busy
    }
}

/// Hours of the week, from Sunday midnight (UTC), that a schedule keeps: in which something happened, or of which
/// nothing is known; and how many hours of the last seven days were busy outside of what a schedule made a week ago
/// would have kept. Nothing where less than two weeks were seen.
pub fn busy_hours(hourly: &[f32], window: Window, rules: &Rules) -> Option<(Vec<u8>, u32)> {
    let before = hourly
        .len()
        .checked_sub(WEEK)
        .filter(|before| *before >= WEEK)?;
    let mut earlier = [Slot::default(); WEEK];
    for (hour, value) in hourly.iter().enumerate().take(before) {
        if let Some(slot) = earlier.get_mut(of_week(window, hour)) {
            slot.note(*value, rules);
        }
    }
    let mut all = earlier;
    let mut surprises = 0;
    for (hour, value) in hourly.iter().enumerate().skip(before) {
        let at = of_week(window, hour);
        let busy = f64::from(*value) >= rules.idle_below;
        if busy && earlier.get(at).is_some_and(|slot| slot.is_idle()) {
            surprises += 1;
        }
        if let Some(slot) = all.get_mut(at) {
            slot.note(*value, rules);
        }
    }
    let pattern = (0_u8..)
        .zip(all)
        .filter(|(_, slot)| !slot.is_idle())
        .map(|(hour, _)| hour);
    Some((pattern.collect(), surprises))
}

/// The share of the hours of the week of which something is known, where a schedule by hours of the week can be made:
/// it keeps the others.
pub fn observed_week(hourly: &[f32], window: Window) -> Option<f64> {
    if hourly.len() < 2 * WEEK {
        return None;
    }
    let mut seen = [false; WEEK];
    for (hour, value) in hourly.iter().enumerate() {
        if let Some(slot) = seen.get_mut(of_week(window, hour)) {
            *slot |= !value.is_nan();
        }
    }
    let many = seen.iter().filter(|seen| **seen).count();
    Some(many as f64 / WEEK as f64)
}
