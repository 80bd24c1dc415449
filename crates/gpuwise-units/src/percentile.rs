use crate::ParseQuantityError;
use core::{fmt, str::FromStr};

/// A percentile strictly between 0 and 100, kept in hundredths so that it is exact and ordered.
///
/// ```
/// use gpuwise_units::Percentile;
/// let p: Percentile = "p99.9".parse().unwrap();
/// assert_eq!(p.fraction(), 0.999);
/// assert_eq!(p.to_string(), "p99.9");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u16);

impl Percentile {
    /// The median.
    pub const P50: Self = Self(5_000);
    /// The 90th percentile.
    pub const P90: Self = Self(9_000);
    /// The 95th percentile.
    pub const P95: Self = Self(9_500);
    /// The 99th percentile.
    pub const P99: Self = Self(9_900);

    /// From percent, rounded to hundredths of a percent.
    pub fn from_percent(percent: f64) -> Option<Self> {
        let hundredths = (percent * 100.0 + 0.5) as u16;
        (percent > 0.0 && percent < 100.0 && (1..10_000).contains(&hundredths))
            .then_some(Self(hundredths))
    }

    /// As a fraction of 1.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e4
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.0) / 100.0)
    }
}

impl FromStr for Percentile {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        given
            .strip_prefix(['p', 'P'])
            .and_then(|digits| digits.parse::<f64>().ok())
            .and_then(Self::from_percent)
            .ok_or_else(|| {
                ParseQuantityError::new(given, "a percentile such as `p50`, `p95` or `p99.9`")
            })
    }
}
