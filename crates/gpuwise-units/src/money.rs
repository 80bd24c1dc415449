use crate::{Currency, ParseQuantityError, text};
use alloc::string::ToString;
use core::{fmt, str::FromStr};

/// An amount of money in millionths of a currency's unit.
///
/// Products with quantities are taken in `i128` and rounded once, by [`half_even`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Money {
    /// Millionths of the currency's unit.
    pub micros: i64,
    /// The currency.
    pub currency: Currency,
}

impl Money {
    /// From a decimal text such as `32.77`, exactly; more than six decimals are rounded half to even.
    ///
    /// # Errors
    /// When the text is not a plain decimal number or is beyond 9 × 10¹² units.
    pub fn from_decimal(given: &str, currency: Currency) -> Result<Self, ParseQuantityError> {
        let fail = || ParseQuantityError::new(given, "an amount of money such as `2.50`");
        let (negative, digits) = match given.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, given.trim()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction)
        {
            return Err(fail());
        }
        let whole: i64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| fail())?
        };
        let mut micros: i64 = 0;
        for position in 0..6 {
            let digit = fraction.as_bytes().get(position).map_or(0, |b| b - b'0');
            micros = micros * 10 + i64::from(digit);
        }
        let beyond = fraction.get(6..).unwrap_or("").trim_end_matches('0');
        // A longer text that begins as the half does is beyond it.
        if beyond > "5" || (beyond == "5" && micros % 2 == 1) {
            micros += 1;
        }
        let total = whole
            .checked_mul(1_000_000)
            .and_then(|w| w.checked_add(micros))
            .ok_or_else(fail)?;
        Ok(Self {
            micros: if negative { -total } else { total },
            currency,
        })
    }

    /// As a real number of the currency's unit, for ratios and plots.
    pub fn as_f64(self) -> f64 {
        self.micros as f64 / 1e6
    }

    /// `self × numerator / denominator`, rounded once by [`half_even`].
    ///
    /// # Panics
    /// When `denominator` is 0.
    #[must_use]
    pub fn times(self, numerator: i64, denominator: i64) -> Self {
        assert!(denominator != 0, "a price is per a quantity that is not 0");
        let product = i128::from(self.micros) * i128::from(numerator);
        let quotient = half_even(product, i128::from(denominator));
        Self {
            micros: quotient.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
            currency: self.currency,
        }
    }
}

/// `numerator / denominator` as the nearest whole number; of two that are equally near, the even one.
/// The one rule by which amounts of money are rounded: halves do not drift upwards in long sums.
///
/// # Panics
/// When `denominator` is 0.
#[must_use]
pub const fn half_even(numerator: i128, denominator: i128) -> i128 {
    let (floor, rest) = (
        numerator.div_euclid(denominator),
        numerator.rem_euclid(denominator).unsigned_abs(),
    );
    let whole = denominator.unsigned_abs();
    let above = match (rest * 2 > whole, rest * 2 == whole) {
        (true, _) => true,
        (false, tie) => tie && floor % 2 != 0,
    };
    // Euclid's quotient leaves a rest that is not negative, so that the next whole number lies upwards,
    // or downwards where the denominator is negative.
    match (above, denominator < 0) {
        (false, _) => floor,
        (true, false) => floor + 1,
        (true, true) => floor - 1,
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.as_f64();
        let shown = if value.abs() >= 100.0 {
            text::significant(value, 5)
        } else if value.abs() >= 1.0 {
            alloc::format!("{value:.2}")
        } else {
            text::significant(value, 3)
        };
        write!(f, "{shown} {}", self.currency)
    }
}

/// Money per hour.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct HourlyPrice(pub Money);

impl HourlyPrice {
    /// Dollars an hour, from a decimal text.
    ///
    /// # Errors
    /// As [`Money::from_decimal`].
    pub fn usd(text: &str) -> Result<Self, ParseQuantityError> {
        Money::from_decimal(text, Currency::USD).map(Self)
    }
}

impl fmt::Display for HourlyPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/h", self.0)
    }
}

impl Money {
    /// An amount as a person says it, such as `2.50usd`: its currency is one that there is, and none of its decimals
    /// is lost. What was kept before is read by [`FromStr`].
    ///
    /// # Errors
    /// When it is no amount with its currency, the currency is none of ISO 4217, or it has more than six decimals.
    pub fn given(given: &str) -> Result<Self, ParseQuantityError> {
        let (amount, code) = divided(given)?;
        let currency = Currency::given(code)?;
        let decimals = amount.split_once('.').map_or("", |(_, decimals)| decimals);
        if decimals.trim_end_matches('0').len() > 6 {
            let expected = "an amount with at most six decimals: 0.000001 is the least above 0";
            return Err(ParseQuantityError::new(given, expected));
        }
        Self::from_decimal(amount, currency)
    }
}

/// What an amount with its currency looks like.
const EXPECTED: &str = "an amount with its currency, such as `2.50USD`";

/// An amount, and the code of its currency.
fn divided(given: &str) -> Result<(&str, &str), ParseQuantityError> {
    let trimmed = given.trim();
    let split = trimmed
        .len()
        .checked_sub(3)
        .filter(|at| trimmed.is_char_boundary(*at));
    let (amount, code) = split
        .map(|at| trimmed.split_at(at))
        .filter(|(_, code)| code.bytes().all(|byte| byte.is_ascii_alphabetic()))
        .ok_or_else(|| ParseQuantityError::new(given, EXPECTED))?;
    Ok((amount.trim(), code))
}

/// Parses `2.50 USD`, with whatever three capital letters; a bare number is refused, because it names no currency.
impl FromStr for Money {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (amount, code) = divided(given)?;
        let currency = code
            .parse()
            .map_err(|_| ParseQuantityError::new(given, EXPECTED.to_string()))?;
        Self::from_decimal(amount, currency)
    }
}
