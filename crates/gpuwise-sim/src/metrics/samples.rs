//! Values of one metric: every one of them, or a histogram where they are too many.

use super::histogram::{FINE, Histogram};
use gpuwise_domain::run::{Distribution, Method, Quantile};
use gpuwise_units::Percentile;

/// So many values are kept one by one; beyond, a histogram of three significant digits is.
pub const EXACT_VALUES: usize = 1_000_000;

/// Percentiles of reports, rising.
pub fn percentiles() -> Vec<Percentile> {
    let tens = (1..20).map(|five| f64::from(five) * 5.0);
    let mut all: Vec<f64> = [1.0, 2.0, 98.0, 99.0, 99.5, 99.9]
        .into_iter()
        .chain(tens)
        .collect();
    all.sort_by(f64::total_cmp);
    all.into_iter()
        .filter_map(Percentile::from_percent)
        .collect()
}

/// Values of one metric, as whole numbers of a unit that [`Samples::distribution`] is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// All of them, as long as they are not counted.
    values: Vec<u64>,
    counted: Option<Histogram>,
    limit: usize,
}

impl Default for Samples {
    fn default() -> Self {
        Self::with_limit(EXACT_VALUES)
    }
}

impl Samples {
    /// No values; keeps so many of them one by one.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            values: Vec::new(),
            counted: None,
            limit,
        }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.counted.is_none() && self.values.len() < self.limit {
            self.values.push(value);
        } else {
            self.count_all().add(value, 1);
        }
    }

    /// Adds `first`, `first + increment`, …, `count` of them, each `weight` times.
    pub fn add_progression(&mut self, first: u64, increment: u64, count: u64, weight: u64) {
        if self.fits(count.saturating_mul(weight)) {
            for step in 0..count {
                let value = first.saturating_add(increment.saturating_mul(step));
                self.values
                    .resize(self.values.len() + weight as usize, value);
            }
        } else {
            self.count_all()
                .add_progression(first, increment, count, weight);
        }
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        if let Some(more) = &other.counted {
            self.count_all().merge(more);
        } else if self.fits(other.values.len() as u64) {
            self.values.extend_from_slice(&other.values);
        } else {
            let counted = self.count_all();
            for value in &other.values {
                counted.add(*value, 1);
            }
        }
    }

    pub fn count(&self) -> u64 {
        self.counted
            .as_ref()
            .map_or(self.values.len() as u64, Histogram::count)
    }

    /// Whether every value is kept.
    pub fn is_exact(&self) -> bool {
        self.counted.is_none()
    }

    /// Keeps a histogram from now on, and gives it.
    pub fn count_all(&mut self) -> &mut Histogram {
        let values = &mut self.values;
        self.counted.get_or_insert_with(|| {
            let mut histogram = Histogram::new(FINE);
            for value in std::mem::take(values) {
                histogram.add(value, 1);
            }
            histogram
        })
    }

    /// The value at a fraction of 1 by linear interpolation where `total` values, this many or more,
    /// are looked at of which all that are not here are higher than all that are; `None` where it
    /// falls among those, or there are none.
    pub fn quantile_among(&mut self, fraction: f64, total: u64) -> Option<f64> {
        let last = total.checked_sub(1)?;
        let rank = fraction.clamp(0.0, 1.0) * last as f64;
        let lower = rank as u64;
        let share = rank - lower as f64;
        let upper = if share > 0.0 { lower + 1 } else { lower };
        let values = (upper < self.count()).then(|| self.at_ranks(&[lower, upper]))?;
        pair(&values).map(|(low, high)| between(low, high, share))
    }

    /// Their mean in units; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.moments().mean)
    }

    /// In a few numbers, a unit being `scale`; `None` without values.
    pub fn distribution(&mut self, scale: f64) -> Option<Distribution> {
        let last = self.count().checked_sub(1)?;
        let asked = percentiles();
        let mut ranks = Vec::with_capacity(asked.len() * 2);
        for percentile in &asked {
            let lower = (percentile.fraction() * last as f64) as u64;
            ranks.extend([lower, (lower + 1).min(last)]);
        }
        let values = self.at_ranks(&ranks);
        let quantiles = asked.iter().zip(values.chunks_exact(2));
        let quantiles = quantiles.filter_map(|(at, ends)| {
            let rank = at.fraction() * last as f64;
            let (low, high) = pair(ends)?;
            Some(Quantile {
                at: *at,
                value: between(low, high, rank - libm::floor(rank)) * scale,
            })
        });
        let quantiles = quantiles.collect();
        let moments = self.moments();
        Some(Distribution {
            count: last + 1,
            mean: moments.mean * scale,
            minimum: moments.low as f64 * scale,
            maximum: moments.high as f64 * scale,
            deviation: moments.deviation * scale,
            quantiles,
            method: match self.counted {
                None => Method::Exact,
                Some(_) => Method::Histogram { digits: 3 },
            },
        })
    }

    fn moments(&self) -> Moments {
        match &self.counted {
            None => Moments::of(&self.values),
            Some(histogram) => {
                let (low, high) = histogram.range().unwrap_or_default();
                let mean = mean(histogram.sum(), histogram.count());
                let squares = histogram.squares_around(mean);
                Moments {
                    mean,
                    low,
                    high,
                    deviation: libm::sqrt(squares / histogram.count().max(1) as f64),
                }
            }
        }
    }

    /// The values at ranks, each below the count.
    fn at_ranks(&mut self, ranks: &[u64]) -> Vec<f64> {
        let mut rising = ranks.to_vec();
        rising.sort_unstable();
        rising.dedup();
        if let Some(histogram) = &self.counted {
            let values = histogram.at_ranks(&rising);
            let at = |rank: &u64| values.get(rising.partition_point(|other| other < rank));
            return ranks.iter().filter_map(at).copied().collect();
        }
        place_ranks(&mut self.values, 0, &rising);
        let at = |rank: &u64| self.values.get(*rank as usize);
        ranks
            .iter()
            .filter_map(at)
            .map(|value| *value as f64)
            .collect()
    }

    fn fits(&self, more: u64) -> bool {
        let left = self.limit.saturating_sub(self.values.len());
        self.counted.is_none() && more <= left as u64
    }
}

/// Mean, lowest, highest and standard deviation, equal in whatever order the values lie.
struct Moments {
    mean: f64,
    low: u64,
    high: u64,
    deviation: f64,
}

impl Moments {
    fn of(values: &[u64]) -> Self {
        let (mut sum, mut low, mut high) = (0_u128, u64::MAX, 0);
        for value in values {
            sum += u128::from(*value);
            low = low.min(*value);
            high = high.max(*value);
        }
        let count = values.len().max(1);
        let whole = (sum / count as u128) as u64;
        let squares = values.iter().fold(0_u128, |squares, value| {
            let distance = u128::from(value.abs_diff(whole));
            squares.saturating_add(distance * distance)
        });
        let mean = mean(sum, count as u64);
        let beside = mean - whole as f64;
        let variance = squares as f64 / count as f64 - beside * beside;
        Self {
            mean,
            low,
            high,
            deviation: libm::sqrt(variance.max(0.0)),
        }
    }
}

fn pair(values: &[f64]) -> Option<(f64, f64)> {
    match values {
        [low, high] => Some((*low, *high)),
        _ => None,
    }
}

fn mean(sum: u128, count: u64) -> f64 {
    let count = u128::from(count.max(1));
    (sum / count) as f64 + (sum % count) as f64 / count as f64
}

/// Between two neighbours in proportion, from the nearer of them, so that both ends are met exactly.
pub(super) fn between(low: f64, high: f64, share: f64) -> f64 {
    let step = high - low;
    if share < 0.5 {
        low + step * share
    } else {
        high - step * (1.0 - share)
    }
}

/// Puts the values of rising ranks where they would be if all were sorted, by halving the ranks.
fn place_ranks(values: &mut [u64], offset: u64, ranks: &[u64]) {
    let Some(middle) = ranks.get(ranks.len() / 2) else {
        return;
    };
    let at = (middle - offset) as usize;
    if values.len() <= 64 || at >= values.len() {
        values.sort_unstable();
        return;
    }
    let (left, _, right) = values.select_nth_unstable(at);
    let below = ranks.partition_point(|rank| rank < middle);
    let above = ranks.partition_point(|rank| rank <= middle);
    place_ranks(left, offset, ranks.get(..below).unwrap_or_default());
    place_ranks(right, middle + 1, ranks.get(above..).unwrap_or_default());
}
