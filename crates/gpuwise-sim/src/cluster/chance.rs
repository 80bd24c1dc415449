//! Draws of times.

use gpuwise_units::RandomStream;

/// A duration that varies: log-normal, by its mean and coefficient of variation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duration {
    /// Seconds on average.
    pub mean: f64,
    /// Standard deviation over mean; 0: always the mean.
    pub variation: f64,
}

impl Duration {
    /// Always so many seconds.
    pub const fn fixed(seconds: f64) -> Self {
        Self {
            mean: seconds,
            variation: 0.0,
        }
    }

    /// Whether it is a number of seconds that can pass.
    pub fn is_sound(&self) -> bool {
        self.mean.is_finite()
            && self.mean >= 0.0
            && self.variation.is_finite()
            && self.variation >= 0.0
    }

    /// Seconds, by one draw of two uniform numbers.
    pub fn draw(&self, chance: &mut RandomStream) -> f64 {
        let normal = normal(chance);
        if self.variation == 0.0 || self.mean == 0.0 {
            return self.mean;
        }
        // The two parameters of the logarithm's normal law.
        let variance = libm::log1p(self.variation * self.variation);
        let centre = libm::log(self.mean) - 0.5 * variance;
        libm::exp(centre + libm::sqrt(variance) * normal)
    }
}

/// A standard normal number (Box–Muller).
fn normal(chance: &mut RandomStream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log1p(-chance.uniform()));
    radius * libm::cos(core::f64::consts::TAU * chance.uniform())
}

/// An exponential number of this mean.
pub(super) fn exponential(chance: &mut RandomStream, mean: f64) -> f64 {
    -mean * libm::log1p(-chance.uniform())
}

pub(super) fn nanoseconds(seconds: f64) -> u64 {
    libm::round((seconds * 1e9).clamp(0.0, 1e18)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_mean_and_variation() {
        for (mean, variation) in [(20.0, 0.5), (3.0, 0.0), (1.0, 1.5)] {
            let duration = Duration { mean, variation };
            let mut chance = RandomStream::new(11, "durations", 0);
            let count = 200_000;
            let draws: Vec<f64> = (0..count).map(|_| duration.draw(&mut chance)).collect();
            let average = draws.iter().sum::<f64>() / f64::from(count);
            let spread = draws
                .iter()
                .map(|draw| (draw - average) * (draw - average))
                .sum::<f64>();
            let found = libm::sqrt(spread / f64::from(count)) / average;
            assert!((average / mean - 1.0).abs() < 0.02, "{mean}: {average}");
            assert!(
                (found - variation).abs() < 0.05 * variation.max(0.01),
                "{variation}: {found}"
            );
        }
    }

    #[test]
    fn exponential_gaps_have_their_mean() {
        let mut chance = RandomStream::new(11, "gaps", 0);
        let sum: f64 = (0..200_000).map(|_| exponential(&mut chance, 4.0)).sum();
        assert!((sum / 800_000.0 - 1.0).abs() < 0.01, "{sum}");
    }
}
