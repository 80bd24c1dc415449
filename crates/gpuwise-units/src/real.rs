//! Reals with a unit. They carry estimates and rates, never amounts owed.

use crate::{ParseQuantityError, text};
use core::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Sub},
    str::FromStr,
};

macro_rules! real {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
        pub struct $name(f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            /// From the number in this unit.
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            /// The number in this unit.
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The larger of the two.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

real!(
    /// Seconds of an estimate; [`Nanoseconds`](crate::Nanoseconds) is the exact kind.
    Seconds
);
real!(
    /// Bytes a second.
    BytesPerSecond
);
real!(
    /// Floating-point (or integer) operations a second.
    FlopPerSecond
);
real!(
    /// Watts.
    Watts
);
real!(
    /// Joules.
    Joules
);
real!(
    /// Something a second: requests or tokens, as the name of the field says.
    PerSecond
);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        if seconds >= 86_400.0 {
            let days = (seconds / 86_400.0) as u64;
            let hours = (seconds / 3600.0) as u64 % 24;
            return write!(f, "{days} d {hours} h");
        }
        let (value, unit) = if seconds >= 3600.0 {
            (seconds / 3600.0, "h")
        } else if seconds >= 120.0 {
            (seconds / 60.0, "min")
        } else if seconds >= 1.0 {
            (seconds, "s")
        } else if seconds >= 1e-3 || seconds == 0.0 {
            (seconds * 1e3, "ms")
        } else {
            (seconds * 1e6, "µs")
        };
        write!(f, "{} {unit}", text::significant(value, 3))
    }
}

/// Parses `8`, `8/s`, `600/min` or `2000/h`.
impl FromStr for PerSecond {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a rate such as `8/s`, `600/min` or `2000/h`";
        let (value, unit) = text::number_and_unit(given, EXPECTED)?;
        let per = match unit {
            "" | "/s" => 1.0,
            "/min" => 60.0,
            "/h" => 3600.0,
            "/d" => 86_400.0,
            _ => return Err(ParseQuantityError::new(given, EXPECTED)),
        };
        Ok(Self(value / per))
    }
}
