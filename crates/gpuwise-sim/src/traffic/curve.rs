//! A law told by some of its quantiles.

use super::TrafficError;
use gpuwise_domain::client::LengthFigures;
use std::sync::Arc;

/// Points between the median and the 95th percentile, and beyond it.
const MIDDLE: usize = 16;
const TAIL: usize = 24;

/// A quantile function through points; between them the logarithm goes straight.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Arc<[(f64, f64)]>);

impl Curve {
    /// Through pairs of a probability (0 to 1) and the length in tokens below which requests lie with
    /// it. Below the first and beyond the last the length stays.
    ///
    /// # Errors
    /// When there are none, a number cannot be, or the pairs do not rise.
    pub fn through(points: &[(f64, f64)]) -> Result<Self, TrafficError> {
        if points.is_empty() {
            return Err(TrafficError::Nothing("quantiles"));
        }
        let (mut before, mut shorter) = (0.0, 0.0);
        for (probability, length) in points {
            let rising = "not below the one before, and at most 1";
            TrafficError::range(
                "a quantile's probability",
                *probability,
                before..=1.0,
                rising,
            )?;
            let longer = "not below the one before, and at most 4294967295 tokens";
            let most = f64::from(u32::MAX);
            TrafficError::range("a quantile's length", *length, shorter..=most, longer)?;
            (before, shorter) = (*probability, *length);
        }
        Ok(Self(points.iter().map(|(q, x)| (*q, x.max(1.0))).collect()))
    }

    /// With this median, 95th percentile and maximum. The mean is met by how late the tail grows; where
    /// that does not suffice by how short the shorter half is, and then by how late lengths grow from the
    /// median on.
    pub fn of(figures: &LengthFigures) -> Self {
        let mean = figures.mean;
        let shape = |tail: f64, low: f64, middle: f64| shaped(figures, tail, low, middle);
        let (early, late, straight) = (0.02, 50.0, 1.0);
        // The mean falls as the tail and the middle grow later, and as the shorter half is shorter.
        if shape(late, 20.0, straight).mean() > mean {
            bisect((straight, late), |middle| shape(late, 20.0, middle), mean)
        } else if shape(late, 1.0, straight).mean() > mean {
            bisect((0.0, 20.0), |low| shape(late, low, straight), mean)
        } else if shape(early, 0.0, straight).mean() < mean {
            bisect((early, straight), |middle| shape(early, 0.0, middle), mean)
        } else if shape(early, 1.0, straight).mean() < mean {
            bisect((0.0, 20.0), |low| shape(early, low, straight), mean)
        } else {
            bisect((early, late), |tail| shape(tail, 1.0, straight), mean)
        }
    }

    /// The length below which requests lie with this probability.
    pub fn at(&self, probability: f64) -> f64 {
        let next = self.0.partition_point(|(q, _)| *q < probability);
        let (Some(after), before) = (self.0.get(next), next.checked_sub(1)) else {
            return self.0.last().map_or(1.0, |(_, length)| *length);
        };
        let Some(before) = before.and_then(|place| self.0.get(place)) else {
            return after.1;
        };
        let part = (probability - before.0) / (after.0 - before.0);
        before.1 * libm::pow(after.1 / before.1, part)
    }

    pub fn longest(&self) -> f64 {
        self.0.last().map_or(1.0, |(_, length)| *length)
    }

    /// The mean of the law.
    pub fn mean(&self) -> f64 {
        let between = |pair: &[(f64, f64)]| match pair {
            [(q0, x0), (q1, x1)] => (q1 - q0) * log_mean(*x0, *x1),
            _ => 0.0,
        };
        let ends = match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => first.0 * first.1 + (1.0 - last.0) * last.1,
            _ => 1.0,
        };
        ends + self.0.windows(2).map(between).sum::<f64>()
    }
}

/// Mean of what goes from one to the other by equal factors.
pub(super) fn log_mean(from: f64, to: f64) -> f64 {
    let log = libm::log(to / from);
    if log.abs() < 1e-9 {
        from
    } else {
        (to - from) / log
    }
}

/// The curve through a median, a 95th percentile and a maximum. Beyond the last two lengths grow by a
/// power of how far one is; the shorter half falls as fast as the middle rises, times `low`.
fn shaped(figures: &LengthFigures, tail: f64, low: f64, middle: f64) -> Curve {
    let p50 = figures.p50.max(1.0);
    let p95 = figures.p95.max(p50);
    let max = figures.max.max(p95);
    let below = |share: f64| (p50 * libm::pow(p50 / p95, low * share)).max(1.0);
    let mut points = vec![(0.0, below(1.4)), (0.05, below(1.0)), (0.5, p50)];
    let mut grow = |from: (f64, f64), to: (f64, f64), steps: usize, late: f64| {
        points.extend((1..=steps).map(|step| {
            let part = step as f64 / steps as f64;
            let length = from.1 * libm::pow(to.1 / from.1, libm::pow(part, late));
            (from.0 + (to.0 - from.0) * part, length)
        }));
    };
    grow((0.5, p50), (0.95, p95), MIDDLE, middle);
    grow((0.95, p95), (1.0, max), TAIL, tail);
    Curve(points.into())
}

/// The curve between two arguments whose mean is as wanted; the mean falls with the argument.
fn bisect((mut low, mut high): (f64, f64), curve: impl Fn(f64) -> Curve, mean: f64) -> Curve {
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if curve(middle).mean() > mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    curve(high)
}
