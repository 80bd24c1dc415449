//! Decimal numbers as files have them.

#![expect(
    clippy::float_cmp,
    reason = "whether a product is the very number that a reader computes is the question"
)]

use gpuwise_units::{Fraction, Money};
use std::fmt;

/// A plain decimal number, such as `1.25`: no exponent, no sign before a positive one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal(String);

impl Default for Decimal {
    fn default() -> Self {
        Self::whole(0)
    }
}

impl Decimal {
    /// An amount, to the µ-unit.
    pub fn money(money: Money) -> Self {
        Self(Fraction::of_money(money).plain(6))
    }

    /// The nearest of so many decimals.
    pub fn fraction(fraction: Fraction, decimals: u32) -> Self {
        Self(fraction.plain(decimals))
    }

    pub fn whole(number: u64) -> Self {
        Self(number.to_string())
    }

    /// The shortest text that reads as this number in double precision.
    pub(super) fn double(number: f64) -> Self {
        // Rust prints no exponent.
        Self(number.to_string())
    }

    /// The number that who reads it in double precision sees.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The quantity near `exact` by which a unit price comes to a cost in double precision, as readers of the
/// file multiply; where no double does, the nearest one.
pub(super) fn priced(unit: &Decimal, cost: &Decimal, exact: Fraction) -> Decimal {
    let (price, cost) = (unit.as_f64(), cost.as_f64());
    let near = Decimal::fraction(exact, 12);
    if price == 0.0 || near.as_f64() * price == cost {
        return near;
    }
    let start = cost / price;
    let step = |by: i64| {
        let bits = start.to_bits().cast_signed() + by;
        f64::from_bits(bits.cast_unsigned())
    };
    let mut near = [0, 1, -1, 2, -2].map(step).into_iter();
    let found = near.find(|quantity| quantity * price == cost);
    Decimal::double(found.unwrap_or(start))
}

/// Unit price times quantity: the cost itself where it reads so in double precision.
pub(super) fn product(unit: &Decimal, quantity: &Decimal, cost: &Decimal) -> Decimal {
    let product = unit.as_f64() * quantity.as_f64();
    if product == cost.as_f64() {
        return cost.clone();
    }
    Decimal::double(product)
}
