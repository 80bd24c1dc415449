use crate::{ParseQuantityError, Seconds, text};
use core::{fmt, ops::Add, str::FromStr};

/// A span of time in whole nanoseconds, up to 584 years.
///
/// ```
/// use gpuwise_units::Nanoseconds;
/// assert_eq!("40ms".parse::<Nanoseconds>().unwrap(), Nanoseconds(40_000_000));
/// assert_eq!(Nanoseconds(3_200_000_000).to_string(), "3.2 s");
/// assert!("40".parse::<Nanoseconds>().is_err(), "ms or s must be said");
/// ```
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    /// From seconds, rounded to the nearest nanosecond; negatives become 0.
    pub fn from_seconds(seconds: Seconds) -> Self {
        Self((seconds.get() * 1e9 + 0.5) as u64)
    }

    /// As real seconds.
    pub fn seconds(self) -> Seconds {
        Seconds::new(self.0 as f64 / 1e9)
    }
}

impl Add for Nanoseconds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seconds())
    }
}

impl FromStr for Nanoseconds {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a time with its unit, such as `40ms`, `1s`, `5min`, `8h` or `3d`";
        let (value, unit) = text::number_and_unit(given, EXPECTED)?;
        let nanoseconds = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" | "m" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(ParseQuantityError::new(given, EXPECTED)),
        };
        let total = value * nanoseconds;
        if total >= 1.8e19 {
            return Err(ParseQuantityError::new(given, "a time below 584 years"));
        }
        Ok(Self((total + 0.5) as u64))
    }
}
