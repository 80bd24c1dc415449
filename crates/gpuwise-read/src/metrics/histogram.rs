//! Histograms of a page: counts by bucket, and what they say of a distribution.

use super::exposition::{Exposition, Sample};

/// Counts by upper bound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// (upper bound, observations up to it); bounds rise, the last is infinite where it was given.
    pub buckets: Vec<(f64, f64)>,
    /// Sum of all observations, exact.
    pub sum: f64,
    pub count: f64,
}

/// A quantile and the bucket that it lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// Fraction of observations up to it (0 to 1).
    pub fraction: f64,
    /// Interpolated within the bucket.
    pub value: f64,
    /// Lower bound of the bucket.
    pub low: f64,
    /// Upper bound of the bucket; of the open one, what is known to bound it.
    pub high: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    pub count: f64,
    /// Sum over count: exact.
    pub mean: f64,
    /// Squared coefficient of variation, as interpolated.
    pub variation: f64,
    /// Upper bound of the largest; `None` where nothing bounds it.
    pub longest: Option<f64>,
    /// Whether observations lie beyond the last finite bound.
    pub open: bool,
    pub quantiles: Vec<Quantile>,
}

/// Whether a number can be counted, or measured, by a server: sums and squares of it are numbers too.
pub(super) fn is_plausible(value: f64) -> bool {
    value.abs() <= 1e18
}

/// Fractions at which distributions are kept.
pub const FRACTIONS: [f64; 8] = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

impl Histogram {
    /// The sum of the histograms of this name whose samples are wanted: engines of one server count
    /// apart. `None` where there is none.
    pub(super) fn of(
        page: &Exposition<'_>,
        name: &str,
        wanted: &dyn Fn(&Sample<'_>) -> bool,
    ) -> Option<Self> {
        let named = |suffix: &str| {
            let full = format!("{name}{suffix}");
            page.samples
                .iter()
                .filter(move |sample| sample.name == full)
                .filter(|sample| wanted(sample) && is_plausible(sample.value))
        };
        let total = |suffix: &str| named(suffix).map(|sample| sample.value).sum::<f64>();
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for sample in named("_bucket") {
            let bound = sample.label("le").and_then(|le| le.parse::<f64>().ok());
            let possible = |bound: &f64| *bound == f64::INFINITY || is_plausible(*bound);
            let Some(bound) = bound.filter(possible) else {
                continue;
            };
            let place = buckets.partition_point(|(other, _)| *other < bound);
            match buckets.get_mut(place) {
                Some((other, count)) if other.total_cmp(&bound).is_eq() => *count += sample.value,
                _ => buckets.insert(place, (bound, sample.value)),
            }
        }
        named("_count").next()?;
        Some(Self {
            buckets,
            sum: total("_sum"),
            count: total("_count"),
        })
    }

    /// What was observed since an earlier page; `None` where the server started again between, or
    /// changed its buckets.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let same = self.buckets.len() == earlier.buckets.len()
            && self
                .buckets
                .iter()
                .zip(&earlier.buckets)
                .all(|((a, _), (b, _))| a.total_cmp(b).is_eq());
        if !same || self.count < earlier.count {
            return None;
        }
        let buckets = self.buckets.iter().zip(&earlier.buckets);
        Some(Self {
            buckets: buckets
                .map(|((bound, now), (_, then))| (*bound, (now - then).max(0.0)))
                .collect(),
            sum: (self.sum - earlier.sum).max(0.0),
            count: self.count - earlier.count,
        })
    }

    /// The mean; `None` without observations.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// What the histogram says of its distribution. `bound` is the most that an observation can be,
    /// where that is known. `None` without observations or buckets.
    ///
    /// Within a bucket from `a` to `b` observations are taken to lie at `a + (b - a)·u^p` for `u`
    /// between 0 and 1, with one `p` for all buckets: the one that gives the exact mean.
    pub fn distribution(&self, bound: Option<f64>) -> Option<Distribution> {
        let mean = self.mean()?;
        let (parts, open) = self.parts(bound);
        let counted: f64 = parts.iter().map(|part| part.count).sum();
        if counted <= 0.0 {
            return None;
        }
        let low: f64 = parts.iter().map(|part| part.low * part.count).sum();
        let width: f64 = parts
            .iter()
            .map(|part| (part.high - part.low) * part.count)
            .sum();
        // Share of the bucket's width at which its observations lie on average.
        let share = if width > 0.0 {
            ((mean * counted - low) / width).clamp(0.02, 0.98)
        } else {
            0.5
        };
        let power = 1.0 / share - 1.0;
        let second: f64 = parts
            .iter()
            .map(|part| {
                let wide = part.high - part.low;
                let moment = part.low * part.low
                    + 2.0 * part.low * wide * share
                    + wide * wide / (1.0 + 2.0 * power);
                moment * part.count
            })
            .sum::<f64>()
            / counted;
        let variation = if mean > 0.0 {
            (second / (mean * mean) - 1.0).max(0.0)
        } else {
            0.0
        };
        let quantile = |fraction: f64| {
            let mut before = 0.0;
            let wanted = fraction * counted;
            for part in &parts {
                if before + part.count >= wanted {
                    let inside = ((wanted - before) / part.count).clamp(0.0, 1.0);
                    return Some(Quantile {
                        fraction,
                        // Rounding must not lead out of the bucket.
                        value: (part.low + (part.high - part.low) * libm::pow(inside, power))
                            .clamp(part.low, part.high),
                        low: part.low,
                        high: part.high,
                    });
                }
                before += part.count;
            }
            None
        };
        Some(Distribution {
            count: self.count,
            mean,
            variation,
            longest: parts.last().map(|part| part.high),
            open,
            quantiles: FRACTIONS.into_iter().filter_map(quantile).collect(),
        })
    }

    /// Buckets that hold something, with finite ends, and whether the open one does.
    fn parts(&self, bound: Option<f64>) -> (Vec<Part>, bool) {
        let mut parts: Vec<Part> = Vec::new();
        let (mut low, mut before, mut open) = (0.0, 0.0, false);
        for (high, up_to) in &self.buckets {
            let count = up_to - before;
            if count > 0.0 {
                let end = if high.is_finite() {
                    *high
                } else {
                    open = true;
                    self.open_end(&parts, low, count, bound)
                };
                parts.push(Part {
                    low: low.min(end),
                    high: end,
                    count,
                });
            }
            before = before.max(*up_to);
            low = *high;
        }
        (parts, open)
    }

    /// Where the open bucket ends: all of the sum that other observations leave to its largest, but
    /// not beyond `bound`; nor can its mean be below its lower end.
    fn open_end(&self, others: &[Part], low: f64, count: f64, bound: Option<f64>) -> f64 {
        let least: f64 = others.iter().map(|part| part.low * part.count).sum();
        let largest = (self.sum - least - low * (count - 1.0)).max(low);
        // With many beyond it, that bound says little: twice their mean excess then.
        let mean = ((self.sum - least) / count).max(low);
        let usual = low + 2.0 * (mean - low);
        let end = if count <= 1.0 {
            largest
        } else {
            usual.min(largest)
        };
        bound.map_or(end, |bound| end.min(bound)).max(low)
    }
}

struct Part {
    low: f64,
    high: f64,
    count: f64,
}
