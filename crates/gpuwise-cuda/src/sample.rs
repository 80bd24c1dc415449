//! Repeated times, and what stands for them.

use gpuwise_units::math::quantile;

/// Seconds of one piece of work, from repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The median, seconds.
    pub median: f64,
    /// Interquartile range over the median.
    pub spread: f64,
    /// How many times it was timed.
    pub repeats: u32,
    /// How many pieces of work each time is of.
    pub pieces: u32,
}

impl Sample {
    /// From times of `pieces` pieces each, in seconds. `None` where there is no time above 0.
    pub fn of(times: &[f64], pieces: u32) -> Option<Self> {
        let mut sorted: Vec<f64> = times
            .iter()
            .map(|time| time / f64::from(pieces.max(1)))
            .filter(|time| time.is_finite() && *time > 0.0)
            .collect();
        sorted.sort_by(f64::total_cmp);
        let median = quantile(&sorted, 0.5)?;
        let range = quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?;
        Some(Self {
            median,
            spread: range / median,
            repeats: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
            pieces: pieces.max(1),
        })
    }
}

/// Seconds that one time should take at least: events tell half a microsecond apart (CUDA driver API,
/// cuEventElapsedTime), so that this is exact to a thousandth.
const LEAST: f64 = 0.002;
/// At most so many pieces in one time, so that the queue of the device does not fill.
const MOST_PIECES: u32 = 500;

/// How many pieces of work are timed at once, where one takes this many seconds.
pub(crate) fn pieces(seconds: f64) -> u32 {
    if seconds.is_finite() && seconds > 0.0 {
        ((LEAST / seconds).ceil() as u32).clamp(1, MOST_PIECES)
    } else {
        MOST_PIECES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let check = |times: &[f64], pieces: u32, expect: Option<(f64, f64, u32)>| {
            let sample = Sample::of(times, pieces);
            let got = sample.map(|one| (one.median, one.spread, one.repeats));
            assert_eq!(got, expect, "{times:?}");
        };
        check(&[], 1, None);
        check(&[0.0, f64::NAN, f64::INFINITY, -1.0], 1, None);
        check(&[3.0], 1, Some((3.0, 0.0, 1)));
        check(&[4.0, 1.0, 2.0, 3.0, 5.0], 1, Some((3.0, 2.0 / 3.0, 5)));
        // Times of four pieces each.
        check(&[8.0, 8.0], 4, Some((2.0, 0.0, 2)));
        // One bad time among many does not count.
        check(&[1.0, 1.0, 1.0, 1.0, 90.0], 1, Some((1.0, 0.0, 5)));
    }

    #[test]
    fn short_work_is_timed_in_bunches() {
        let check = |seconds: f64, expect: u32| assert_eq!(pieces(seconds), expect, "{seconds}");
        check(1.0, 1);
        check(0.002, 1);
        check(0.0005, 4);
        check(1e-7, 500);
        check(0.0, 500);
        check(f64::NAN, 500);
    }
}
