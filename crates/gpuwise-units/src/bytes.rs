use crate::{ParseQuantityError, text};
use core::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
    str::FromStr,
};

/// An amount of memory or traffic in whole bytes.
///
/// ```
/// use gpuwise_units::Bytes;
/// assert_eq!("80GB".parse::<Bytes>().unwrap().count(), 80_000_000_000);
/// assert_eq!("80GiB".parse::<Bytes>().unwrap().count(), 85_899_345_920);
/// assert_eq!(Bytes::from_mib(81_559).to_string(), "79.6 GiB");
/// assert!("80G".parse::<Bytes>().is_err(), "GB or GiB must be said");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// From a count of bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// From mebibytes (2^20), the unit in which drivers report.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// From a real number of bytes, rounded to the nearest; negatives become 0.
    pub fn from_f64(count: f64) -> Self {
        // `as` saturates: NaN and negatives become 0.
        Self((count + 0.5) as u64)
    }

    /// The number of bytes.
    pub const fn count(self) -> u64 {
        self.0
    }

    /// The number of bytes as a real.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// In gibibytes (2^30).
    pub fn gib(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }

    /// In mebibytes (2^20).
    pub fn mib(self) -> f64 {
        self.0 as f64 / (1u64 << 20) as f64
    }

    /// `self - other`, or zero where `other` is larger.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1024 => return write!(f, "{} B", self.0),
            1024..0x10_0000 => (self.0 as f64 / 1024.0, "KiB"),
            0x10_0000..0x4000_0000 => (self.mib(), "MiB"),
            0x4000_0000..0x100_0000_0000 => (self.gib(), "GiB"),
            _ => (self.gib() / 1024.0, "TiB"),
        };
        write!(f, "{} {unit}", text::significant(value, 3))
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "a size with its unit, such as `80GiB` (2^30 bytes) or `80GB` (10^9)";
        let (value, unit) = text::number_and_unit(given, EXPECTED)?;
        let scale = match unit {
            "B" | "bytes" => 1.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            "KiB" => 1024.0,
            "MiB" => 1048576.0,
            "GiB" => 1073741824.0,
            "TiB" => 1099511627776.0,
            _ => return Err(ParseQuantityError::new(given, EXPECTED)),
        };
        let bytes = value * scale;
        // Above 2^63 no machine exists, and the cast would saturate silently.
        if bytes >= 9.2e18 {
            return Err(ParseQuantityError::new(given, "a size below 8 EiB"));
        }
        Ok(Self::from_f64(bytes))
    }
}
