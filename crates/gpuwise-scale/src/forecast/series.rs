//! Readings at any times become one reading a period.

use gpuwise_units::Nanoseconds;

/// A series with one reading a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Regular {
    pub period: Nanoseconds,
    /// When the first period begins, in seconds.
    pub start_seconds: f64,
    pub readings: Vec<Option<f64>>,
    /// Periods with several readings (their mean counts), with none, and readings that say nothing: negative or no
    /// number.
    pub several: usize,
    pub gaps: usize,
    pub nothing: usize,
}

/// Why a series is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    #[error("it has no reading")]
    Empty,
    #[error("it has one reading, which does not say how long a period is")]
    One,
    #[error("it spans {0} periods; at most {MOST} are looked at")]
    TooMany(u64),
    #[error("a time is no number")]
    Time,
}

/// Periods of a series at most: two years of minutes.
pub const MOST: u64 = 1_051_200;

/// One reading a period. `period`: left out, the usual time between two readings. Of a period with several readings
/// their mean counts.
///
/// # Errors
/// When there is none, its period is not known, or it is too long.
pub fn regular(
    readings: &[(f64, f64)],
    period: Option<Nanoseconds>,
) -> Result<Regular, SeriesError> {
    if readings.iter().any(|(at, _)| !at.is_finite()) {
        return Err(SeriesError::Time);
    }
    let mut sorted: Vec<(f64, f64)> = readings.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = sorted.first().ok_or(SeriesError::Empty)?.0;
    let last = sorted.last().map_or(first, |one| one.0);
    let seconds = match period {
        Some(period) => period.0 as f64 / 1e9,
        None => usual_gap(&sorted).ok_or(SeriesError::One)?,
    };
    let count = ((last - first) / seconds + 0.5).floor() + 1.0;
    if count > MOST as f64 {
        return Err(SeriesError::TooMany(count as u64));
    }
    let mut sums = vec![(0.0, 0_u32); count as usize];
    let mut nothing = 0;
    for (at, value) in &sorted {
        if !value.is_finite() || *value < 0.0 {
            nothing += 1;
            continue;
        }
        let index = ((at - first) / seconds + 0.5).floor() as usize;
        if let Some((sum, count)) = sums.get_mut(index) {
            *sum += value;
            *count += 1;
        }
    }
    let several = sums.iter().filter(|(_, count)| *count > 1).count();
    let readings: Vec<Option<f64>> = sums
        .iter()
        .map(|(sum, count)| (*count > 0).then(|| sum / f64::from(*count)))
        .collect();
    Ok(Regular {
        period: Nanoseconds((seconds * 1e9 + 0.5) as u64),
        start_seconds: first,
        gaps: readings.iter().filter(|one| one.is_none()).count(),
        readings,
        several,
        nothing,
    })
}

/// The median time between two readings, the shorter of two, to the second where it is longer than one.
fn usual_gap(sorted: &[(f64, f64)]) -> Option<f64> {
    let pairs = sorted.windows(2);
    let gaps = pairs.filter_map(|pair| match pair {
        [(before, _), (after, _)] if after > before => Some(after - before),
        _ => None,
    });
    let mut gaps: Vec<f64> = gaps.collect();
    gaps.sort_by(f64::total_cmp);
    let middle = *gaps.get(gaps.len().checked_sub(1)? / 2)?;
    Some(if middle > 1.0 { middle.round() } else { middle })
}

impl Regular {
    /// Readings of a part of the whole, one a period: several of a period are added, and where there is none there
    /// was nothing of it.
    pub fn along(&self, readings: &[(f64, f64)]) -> Vec<f64> {
        let seconds = self.period.0 as f64 / 1e9;
        let mut sums = vec![0.0; self.readings.len()];
        for (at, value) in readings {
            let index = ((at - self.start_seconds) / seconds + 0.5).floor();
            let sum = (index >= 0.0)
                .then(|| sums.get_mut(index as usize))
                .flatten();
            if let Some(sum) = sum.filter(|_| value.is_finite() && *value > 0.0) {
                *sum += value;
            }
        }
        sums
    }

    /// What was set right, in words.
    pub fn notes(&self) -> Vec<String> {
        let count = self.readings.len();
        let mut notes = Vec::new();
        if self.nothing > 0 {
            let what = "readings are negative or no number, and count as unknown";
            notes.push(format!("{} {what}", self.nothing));
        }
        if self.gaps > 0 {
            notes.push(format!(
                "nothing is known of {} of {count} periods",
                self.gaps
            ));
        }
        if self.several > 0 {
            notes.push(format!(
                "{} periods have several readings: their mean counts",
                self.several
            ));
        }
        notes
    }
}
