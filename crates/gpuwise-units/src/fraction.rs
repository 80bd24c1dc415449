use crate::{Currency, Money, ParseQuantityError, half_even};
use alloc::{format, string::String};
use core::cmp::Ordering;

/// An exact rational number: what prices, shares and hours are multiplied in before an amount is
/// rounded once.
///
/// Kept in lowest terms with a positive denominator. Operations give `None` where a result is beyond
/// 128 bits, or undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    /// 0.
    pub const ZERO: Self = Self::whole(0);
    /// 1.
    pub const ONE: Self = Self::whole(1);

    /// A whole number.
    pub const fn whole(number: i64) -> Self {
        Self {
            numerator: number as i128,
            denominator: 1,
        }
    }

    /// `numerator / denominator`; `None` where the denominator is 0.
    pub fn new(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 0 || numerator == i128::MIN || denominator == i128::MIN {
            return None;
        }
        let common = common_divisor(numerator.unsigned_abs(), denominator.unsigned_abs());
        let common = i128::try_from(common).ok()?;
        let sign = if denominator < 0 { -1 } else { 1 };
        Some(Self {
            numerator: sign * (numerator / common),
            denominator: sign * (denominator / common),
        })
    }

    /// From a decimal text such as `0.0823`, exactly; up to 18 decimals.
    ///
    /// # Errors
    /// When the text is not a plain decimal number, or too long to be kept exactly.
    pub fn from_decimal(given: &str) -> Result<Self, ParseQuantityError> {
        let fail = || ParseQuantityError::new(given, "a decimal number such as `0.08`");
        let (negative, digits) = match given.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, given.trim()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let long = whole.len() > 18 || fraction.len() > 18;
        if (whole.is_empty() && fraction.is_empty()) || !plain(whole) || !plain(fraction) || long {
            return Err(fail());
        }
        let mut numerator: i128 = 0;
        let mut denominator: i128 = 1;
        for digit in whole.bytes() {
            numerator = numerator * 10 + i128::from(digit - b'0');
        }
        for digit in fraction.bytes() {
            numerator = numerator * 10 + i128::from(digit - b'0');
            denominator *= 10;
        }
        let signed = if negative { -numerator } else { numerator };
        Self::new(signed, denominator).ok_or_else(fail)
    }

    /// The nearest number of so many decimals (at most 12) to a real one; `None` where it is not
    /// finite or too large.
    pub fn nearest(value: f64, decimals: u32) -> Option<Self> {
        let scale = 10_i128.checked_pow(decimals.min(12))?;
        let scaled = value * scale as f64;
        let scaled = scaled + if scaled < 0.0 { -0.5 } else { 0.5 };
        (scaled.is_finite() && scaled.abs() < 1e30)
            .then(|| Self::new(scaled as i128, scale))
            .flatten()
    }

    /// An amount of money in its currency's unit.
    pub fn of_money(money: Money) -> Self {
        Self::new(i128::from(money.micros), 1_000_000).unwrap_or(Self::ZERO)
    }

    /// `self + other`.
    pub fn plus(self, other: Self) -> Option<Self> {
        let (left, right) = (self.denominator, other.denominator);
        let common = common_divisor(left.unsigned_abs(), right.unsigned_abs());
        let common = i128::try_from(common).ok()?;
        let (mine, theirs) = (right / common, left / common);
        let sum = (self.numerator.checked_mul(mine)?)
            .checked_add(other.numerator.checked_mul(theirs)?)?;
        Self::new(sum, left.checked_mul(mine)?)
    }

    /// `self − other`.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.plus(other.negated())
    }

    /// `self · other`, reduced crosswise first, so that what can be kept is kept.
    pub fn times(self, other: Self) -> Option<Self> {
        let left = Self::new(self.numerator, other.denominator)?;
        let right = Self::new(other.numerator, self.denominator)?;
        Some(Self {
            numerator: left.numerator.checked_mul(right.numerator)?,
            denominator: left.denominator.checked_mul(right.denominator)?,
        })
    }

    /// `self / other`; `None` where `other` is 0.
    pub fn over(self, other: Self) -> Option<Self> {
        self.times(Self::new(other.denominator, other.numerator)?)
    }

    /// `−self`.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self {
            numerator: -self.numerator,
            denominator: self.denominator,
        }
    }

    /// The nearest number of so many decimals, half away from zero, as spreadsheets round; amounts of money
    /// are rounded by [`half_even`].
    pub fn rounded(self, decimals: u32) -> Option<Self> {
        let scale = 10_i128.checked_pow(decimals)?;
        if scale % self.denominator == 0 {
            return Some(self);
        }
        let magnitude = self.numerator.abs();
        let (whole, rest) = (magnitude / self.denominator, magnitude % self.denominator);
        // An odd denominator has no exact half, and the sum stays below the next whole number.
        let rest = (rest.checked_mul(scale)?.checked_add(self.denominator / 2)?) / self.denominator;
        let units = whole.checked_mul(scale)?.checked_add(rest)?;
        Self::new(units * self.numerator.signum(), scale)
    }

    /// The largest whole number that is not above it.
    #[must_use]
    pub const fn floor(self) -> Self {
        Self {
            numerator: self.numerator.div_euclid(self.denominator),
            denominator: 1,
        }
    }

    /// The smallest whole number that is not below it.
    #[must_use]
    pub const fn ceiling(self) -> Self {
        self.negated().floor().negated()
    }

    /// The upper number, in lowest terms.
    pub const fn numerator(self) -> i128 {
        self.numerator
    }

    /// The lower number, in lowest terms; above 0.
    pub const fn denominator(self) -> i128 {
        self.denominator
    }

    /// As a real number, for ratios and plots.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The whole number that it is; `None` where it is none, or beyond 64 bits.
    pub fn as_whole(self) -> Option<i64> {
        (self.denominator == 1)
            .then(|| i64::try_from(self.numerator).ok())
            .flatten()
    }

    /// As money, rounded by [`half_even`] to a µ-unit; `None` beyond what money holds.
    pub fn to_money(self, currency: Currency) -> Option<Money> {
        let micros = self.times(Self::whole(1_000_000))?;
        let micros = half_even(micros.numerator, micros.denominator);
        Some(Money {
            micros: i64::try_from(micros).ok()?,
            currency,
        })
    }

    /// As a decimal text with so many decimals, rounded half away from zero; `1.50` with two.
    pub fn decimal(self, decimals: u32) -> String {
        let Some(rounded) = self.rounded(decimals) else {
            return format!("{}", self.as_f64());
        };
        let scale = 10_i128.pow(decimals.min(30));
        let units = rounded
            .times(Self {
                numerator: scale,
                denominator: 1,
            })
            .map_or(0, |units| units.numerator);
        let sign = if units < 0 { "-" } else { "" };
        let (whole, fraction) = (units.abs() / scale, units.abs() % scale);
        if decimals == 0 {
            format!("{sign}{whole}")
        } else {
            format!(
                "{sign}{whole}.{fraction:0width$}",
                width = decimals as usize
            )
        }
    }

    /// As the shortest decimal text, of at most so many decimals: `1.5`, `3`.
    pub fn plain(self, decimals: u32) -> String {
        let text = self.decimal(decimals);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').into()
        } else {
            text
        }
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = self.numerator.checked_mul(other.denominator);
        let right = other.numerator.checked_mul(self.denominator);
        if let (Some(left), Some(right)) = (left, right) {
            return left.cmp(&right);
        }
        // Beyond 128 bits: whole parts first, then what remains, turned around.
        let whole = self.floor().numerator.cmp(&other.floor().numerator);
        whole.then_with(|| {
            let rest = |number: &Self| Self {
                numerator: number.denominator,
                denominator: number.numerator.rem_euclid(number.denominator),
            };
            let (left, right) = (rest(self), rest(other));
            match (left.denominator == 0, right.denominator == 0) {
                (false, false) => right.cmp(&left),
                (left, right) => right.cmp(&left),
            }
        })
    }
}

fn common_divisor(left: u128, right: u128) -> u128 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        if let (Ok(mut small), Ok(mut smaller)) = (u64::try_from(left), u64::try_from(right)) {
            while smaller != 0 {
                (small, smaller) = (smaller, small % smaller);
            }
            return u128::from(small);
        }
        (left, right) = (right, left % right);
    }
    left.max(1)
}
