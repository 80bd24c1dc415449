//! A law told by some of its quantiles.

use super::TrafficError;
use gpuwise_domain::client::LengthFigures;
use std::sync::Arc;

/// Points along the slowest twentieth of requests.
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

    /// With this median, 95th percentile and maximum; the mean is met by how late the tail grows, and
    /// by how short the shorter half is where that does not suffice.
    pub fn of(figures: &LengthFigures) -> Self {
        let p50 = figures.p50.max(1.0);
        let p95 = figures.p95.max(p50);
        let max = figures.max.max(p95);
        let shape = |tail: f64, low: f64| {
            let below = |share: f64| (p50 * libm::pow(p50 / p95, low * share)).max(1.0);
            let mut points = vec![
                (0.0, below(1.4)),
                (0.05, below(1.0)),
                (0.5, p50),
                (0.95, p95),
            ];
            points.extend((1..=TAIL).map(|step| {
                let part = step as f64 / TAIL as f64;
                let length = p95 * libm::pow(max / p95, libm::pow(part, tail));
                (0.95 + 0.05 * part, length)
            }));
            Self(points.into())
        };
        let mean = figures.mean;
        let (early, late) = (0.02, 50.0);
        // The mean falls as the tail grows later, and as the shorter half is shorter.
        if shape(late, 1.0).mean() > mean {
            return bisect(0.0, 20.0, |low| shape(late, low), mean).unwrap_or(shape(late, 20.0));
        }
        if shape(early, 1.0).mean() < mean {
            return bisect(0.0, 1.0, |low| shape(early, low), mean).unwrap_or(shape(early, 0.0));
        }
        bisect(early, late, |tail| shape(tail, 1.0), mean).unwrap_or(shape(1.0, 1.0))
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

    /// The longest.
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

/// The curve between two arguments whose mean is as wanted; the mean falls with the argument.
fn bisect(low: f64, high: f64, curve: impl Fn(f64) -> Curve, mean: f64) -> Option<Curve> {
    let (mut low, mut high) = (low, high);
    let mut found = None;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let made = curve(middle);
        if made.mean() > mean {
            low = middle;
        } else {
            high = middle;
        }
        found = Some(made);
    }
    found
}
