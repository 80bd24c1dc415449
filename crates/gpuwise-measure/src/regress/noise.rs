//! How much neighbouring runs differ, and which run stands alone.

use gpuwise_units::math;

/// The median of absolute deviations of normal noise, in standard deviations.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.674_489_750_196_081_7;

/// A run further than this from its neighbours' median, in scatters, is set aside.
const OUTLIER: f64 = 4.0;

/// Neighbours on each side that a run is held against.
const REACH: usize = 3;

/// The standard deviation of a run around its level: from the median difference of neighbours, which
/// neither a jump nor a few odd runs move; at least `resolution` of the median value.
pub(super) fn scatter(values: &[f64], resolution: f64) -> f64 {
    let differences: Vec<f64> = values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .collect();
    let noise = median(differences) / (NORMAL_MEDIAN_DEVIATION * core::f64::consts::SQRT_2);
    let level = median(values.iter().map(|value| value.abs()).collect());
    noise.max(level * resolution).max(f64::MIN_POSITIVE)
}

/// The series with runs that stand alone put at their neighbours' median. A run that begins a new
/// level is not alone: the runs after it are there too.
pub(super) fn without_outliers(values: &[f64], scatter: f64) -> Vec<f64> {
    (0..values.len())
        .map(|index| {
            let before = index.saturating_sub(REACH)..index;
            let after = index + 1..(index + 1 + REACH).min(values.len());
            let far = |range: core::ops::Range<usize>| {
                range.is_empty()
                    || (median(values[range].to_vec()) - values[index]).abs() > OUTLIER * scatter
            };
            if far(before.clone()) && far(after.clone()) && !(before.is_empty() && after.is_empty())
            {
                median([&values[before], &values[after]].concat())
            } else {
                values[index]
            }
        })
        .collect()
}

/// The middle value; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    math::median(&values).unwrap_or(0.0)
}
