//! Demand over time, and counts around it.

use gpuwise_units::RandomStream;

/// Rates that go straight from one reading to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Seconds between readings.
    pub period: f64,
    /// Requests a second.
    pub rates: Vec<f64>,
}

impl Demand {
    /// The same, at another mean.
    #[must_use]
    pub fn scaled_to(mut self, mean: f64) -> Self {
        let sum: f64 = self.rates.iter().sum();
        let now = sum / self.rates.len().max(1) as f64;
        if now > 0.0 {
            self.rates.iter_mut().for_each(|rate| *rate *= mean / now);
        }
        self
    }

    /// Seconds that it says something of.
    pub fn length(&self) -> f64 {
        self.rates.len() as f64 * self.period
    }

    /// The highest rate between two times.
    pub fn highest(&self, from: f64, until: f64) -> f64 {
        let first = (from / self.period).ceil().max(0.0) as usize;
        let last = ((until / self.period).floor().max(0.0) as usize)
            .min(self.rates.len().saturating_sub(1));
        let between = self
            .rates
            .get(first..=last)
            .unwrap_or_default()
            .iter()
            .copied();
        between.fold(self.at(from).max(self.at(until)), f64::max)
    }

    pub fn at(&self, second: f64) -> f64 {
        let at = (second / self.period).max(0.0);
        let (low, part) = (at as usize, at - at.floor());
        let last = self.rates.len().saturating_sub(1);
        let value = |at: usize| self.rates.get(at.min(last)).copied().unwrap_or(0.0);
        value(low) + (value(low + 1) - value(low)) * part
    }
}

/// The mean up to which counts are drawn at once: beyond it the chance of none is too small to be a number.
const AT_ONCE: f64 = 400.0;

/// Beyond this mean a count is drawn as a normal number of the same mean and variance.
const NORMAL: f64 = 2000.0;

/// By Box and Muller.
fn standard_normal(stream: &mut RandomStream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.uniform()));
    radius * libm::cos(core::f64::consts::TAU * stream.uniform())
}

/// A count of a negative binomial distribution of this mean, whose variance is `dispersion` times as much; of a
/// Poisson distribution where that is 1.
pub fn negative_binomial(stream: &mut RandomStream, mean: f64, dispersion: f64) -> f64 {
    if mean > NORMAL {
        let deviation = libm::sqrt(mean * dispersion.max(1.0));
        return libm::round(mean + deviation * standard_normal(stream)).max(0.0);
    }
    let mut left = mean.max(0.0);
    let mut sum = 0.0;
    while left > 0.0 {
        let part = left.min(AT_ONCE);
        sum += at_once(stream, part, dispersion);
        left -= part;
    }
    sum
}

/// By inversion: chances are added up until they reach a draw.
fn at_once(stream: &mut RandomStream, mean: f64, dispersion: f64) -> f64 {
    let draw = stream.uniform();
    let poisson = dispersion <= 1.0;
    let size = mean / (dispersion - 1.0);
    let fails = 1.0 - 1.0 / dispersion;
    let mut chance = if poisson {
        libm::exp(-mean)
    } else {
        libm::exp(-size * libm::log(dispersion))
    };
    let (mut count, mut all) = (0.0, chance);
    // Beyond this nothing is left that a draw could be.
    let most = mean + 40.0 * libm::sqrt(mean * dispersion.max(1.0)) + 40.0;
    while all < draw && count < most {
        count += 1.0;
        chance *= if poisson {
            mean / count
        } else {
            fails * (size + count - 1.0) / count
        };
        all += chance;
    }
    count
}
