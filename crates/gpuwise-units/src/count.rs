use crate::{ParseQuantityError, text};
use core::{fmt, ops::Add, str::FromStr};

/// A number of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(pub u64);

/// A number of parameters of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parameters(pub u64);

impl Add for Parameters {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = alloc::format!("{}", self.0);
        if self.0 < 10_000 {
            f.write_str(&digits)
        } else {
            f.write_str(&text::group_thousands(&digits))
        }
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000_000 => (self.0 as f64 / 1e3, "K"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "M"),
            1_000_000_000..1_000_000_000_000 => (self.0 as f64 / 1e9, "B"),
            _ => (self.0 as f64 / 1e12, "T"),
        };
        write!(f, "{}{unit}", text::significant(value, 3))
    }
}

/// Parses `2000`, `32k`, `1e6`: a whole number. Units are those of vLLM's own flags, so that a length
/// means the same here and there: `k` = 1,000, `K` = 1,024, `m` = 1,000,000, `M` = 1,048,576.
impl FromStr for Tokens {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "a number of tokens such as `2000`, `32k` (32,000) or `32K` (32,768)";
        let (value, unit) = text::number_and_unit(given, EXPECTED)?;
        let scale = match unit {
            "" => 1.0,
            "k" => 1e3,
            "K" => 1024.0,
            "m" => 1e6,
            "M" => 1_048_576.0,
            _ => return Err(ParseQuantityError::new(given, EXPECTED)),
        };
        whole(given, value * scale, EXPECTED).map(Self)
    }
}

/// Parses `8e9`, `8B`, `70b`, `560M`, `1.6T` or a plain count.
impl FromStr for Parameters {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a number of parameters such as `8e9`, `8B` or `560M`";
        let (value, unit) = text::number_and_unit(given, EXPECTED)?;
        let scale = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "b" | "B" => 1e9,
            "t" | "T" => 1e12,
            _ => return Err(ParseQuantityError::new(given, EXPECTED)),
        };
        whole(given, value * scale, EXPECTED).map(Self)
    }
}

fn whole(given: &str, value: f64, expected: &str) -> Result<u64, ParseQuantityError> {
    let rounded = (value + 0.5) as u64;
    let close = (rounded as f64 - value).abs() <= 1e-6 * value.max(1.0);
    if close && value < 9e18 {
        Ok(rounded)
    } else {
        Err(ParseQuantityError::new(given, expected))
    }
}
