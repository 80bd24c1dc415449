//! How evenly requests come, from counts in windows of equal length.

/// Windows longer than this blur what a queue sees of a burst.
const SHORT_SECONDS: f64 = 30.0;
/// With fewer requests than this nothing is said of burstiness.
const FEWEST: f64 = 30.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burstiness {
    /// Squared coefficient of variation of the gaps between requests that such counts suggest.
    pub value: f64,
    /// Standard error of it, relative.
    pub error: f64,
    /// Variation (standard deviation over mean) of the rate between windows beyond what chance
    /// gives.
    pub between: f64,
    pub windows: usize,
    /// Whether the windows are too long to see short bursts, so that it may be more.
    pub at_least: bool,
}

/// What counts in windows of so many seconds say of burstiness; `None` where they are too few.
///
/// In short windows the variance over the mean of counts is that of the gaps (exact for renewal
/// processes in the limit of many gaps a window). In long ones requests are taken to come at random at
/// a rate that changes from window to window.
pub fn burstiness(counts: &[f64], seconds: f64) -> Option<Burstiness> {
    let windows = counts.len();
    let total: f64 = counts.iter().sum();
    if windows < 4 || total < FEWEST || seconds <= 0.0 {
        return None;
    }
    let mean = total / windows as f64;
    let variance = counts
        .iter()
        .map(|count| (count - mean) * (count - mean))
        .sum::<f64>()
        / (windows - 1) as f64;
    let between = ((variance - mean).max(0.0) / (mean * mean)).sqrt();
    let short = seconds <= SHORT_SECONDS;
    let value = if short {
        variance / mean
    } else {
        1.0 + 2.0 * between * between
    };
    Some(Burstiness {
        value,
        error: (2.0 / (windows - 1) as f64).sqrt(),
        between,
        windows,
        at_least: !short,
    })
}

/// Mean rates of consecutive hours, from counts in windows of equal length; a last part of an hour
/// counts if it is at least half of one.
pub fn hourly(counts: &[f64], seconds: f64) -> Vec<f64> {
    let per_hour = (3600.0 / seconds).round().max(1.0) as usize;
    if seconds <= 0.0 || seconds > 3600.0 {
        return Vec::new();
    }
    counts
        .chunks(per_hour)
        .filter(|hour| 2 * hour.len() >= per_hour)
        .map(|hour| hour.iter().sum::<f64>() / (hour.len() as f64 * seconds))
        .collect()
}
