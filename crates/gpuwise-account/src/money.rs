//! Currencies with their decimals, amounts of quantities, and parts that sum to the whole.

use gpuwise_units::{Currency, Fraction, Money, half_even};

/// Credits: a unit of one's own, kept to its µ-unit. ISO 4217 gives the code to nobody.
pub const fn credits() -> Currency {
    Currency::CREDITS
}

/// Decimals of a currency's smallest unit; 6 for [`credits`]; `None`: ISO 4217 does not have the code.
pub fn decimals(currency: Currency) -> Option<u32> {
    currency.decimals()
}

/// `price × numerator / denominator` in µ-units, rounded once, half to even; `None` where it, or what it
/// is computed from, is beyond what is kept.
pub fn amount(price: Money, numerator: i128, denominator: i128) -> Option<Money> {
    let micros = i128::from(price.micros);
    let denominator = (denominator > 0).then_some(denominator)?;
    let product = if let Some(product) = micros.checked_mul(numerator) {
        half_even(product, denominator)
    } else {
        let common = common_divisor(numerator, denominator);
        let product = micros.checked_mul(numerator / common)?;
        half_even(product, denominator / common)
    };
    Some(Money {
        micros: i64::try_from(product).ok()?,
        currency: price.currency,
    })
}

const fn common_divisor(left: i128, right: i128) -> i128 {
    let (mut left, mut right) = (left.unsigned_abs(), right.unsigned_abs());
    while right != 0 {
        (left, right) = (right, left % right);
    }
    if left == 0 { 1 } else { left.cast_signed() }
}

/// An amount to the currency's smallest unit, half to even; currencies without known decimals keep µ-units.
pub fn payable(amount: Money) -> Money {
    let finer = 6_u32.saturating_sub(decimals(amount.currency).unwrap_or(6));
    let unit = 10_i64.pow(finer);
    let units = half_even(i128::from(amount.micros), i128::from(unit));
    Money {
        // Rounding leaves 64 bits only at their very ends, where µ-units stay.
        micros: i64::try_from(units * i128::from(unit)).unwrap_or(amount.micros),
        currency: amount.currency,
    }
}

/// An amount with all its decimals, such as `12.5 USD`.
pub fn exact(amount: Money) -> String {
    format!(
        "{} {}",
        Fraction::of_money(amount).plain(6),
        amount.currency
    )
}

/// A whole number in parts by weights that sum to it exactly: each gets its share rounded down, what is
/// left goes one by one to the largest remainders, of equal ones to the first (Hamilton's method).
/// Without any weight, the first part gets all; without parts there is nothing to give.
///
/// ```
/// use gpuwise_account::money::split;
/// assert_eq!(split(100, &[1_u64, 1, 1]), [34, 33, 33]);
/// assert_eq!(split(-5, &[1_u64, 1]), [-3, -2]);
/// ```
pub fn split<W: Copy + Into<u128>>(total: i128, weights: &[W]) -> Vec<i128> {
    let sum = |finer: u32| -> Option<u128> {
        let mut weights = weights.iter().map(|weight| (*weight).into() >> finer);
        weights.try_fold(0, u128::checked_add)
    };
    // A sum beyond 126 bits is weighed by leading bits, so that twice a remainder stays within 128.
    let small = |sum: &u128| *sum < 1 << 126;
    let finer = if sum(0).is_some_and(|sum| small(&sum)) {
        0
    } else {
        66
    };
    let whole = sum(finer).unwrap_or(0);
    let mut parts = vec![0_i128; weights.len()];
    if whole == 0 {
        if let Some(first) = parts.first_mut() {
            *first = total;
        }
        return parts;
    }
    let magnitude = total.unsigned_abs();
    let mut given = 0;
    let mut rests: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    for (index, weight) in weights.iter().enumerate() {
        let (part, rest) = share(magnitude, (*weight).into() >> finer, whole);
        parts[index] = part.cast_signed();
        given += part;
        rests.push((rest, index));
    }
    rests.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
    for (_, index) in rests.iter().take((magnitude - given) as usize) {
        parts[*index] += 1;
    }
    if total < 0 {
        for part in &mut parts {
            *part = -*part;
        }
    }
    parts
}

/// `total × weight / whole`, and what remains of it, of a weight that is not above the whole; bit by bit
/// where the product is beyond 128 bits.
fn share(total: u128, weight: u128, whole: u128) -> (u128, u128) {
    if let Some(product) = total.checked_mul(weight) {
        return (product / whole, product % whole);
    }
    let (mut quotient, mut rest) = (0, 0);
    for bit in (0..u128::BITS - total.leading_zeros()).rev() {
        let more = if total >> bit & 1 == 1 { weight } else { 0 };
        rest = rest * 2 + more;
        quotient = quotient * 2 + rest / whole;
        rest %= whole;
    }
    (quotient, rest)
}

/// An amount in parts by weights that sum to it to the µ-unit, as [`split`].
pub fn divide<W: Copy + Into<u128>>(amount: Money, weights: &[W]) -> Vec<Money> {
    let parts = split(i128::from(amount.micros), weights);
    let money = |part| Money {
        // No part is larger than the whole.
        micros: part as i64,
        currency: amount.currency,
    };
    parts.into_iter().map(money).collect()
}
