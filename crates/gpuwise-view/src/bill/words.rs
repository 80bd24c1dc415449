//! Words and numbers of a bill.

use crate::figures::{amount, number};
use gpuwise_domain::bill::{Amount, Band, CostInput, CostUnit};
use gpuwise_units::{Fraction, Money, significant};

/// `1.24 M`, `12.4 k`, `812.50`: three digits, without the currency.
pub(super) fn money(money: Money) -> String {
    let value = money.as_f64();
    let scaled =
        |divisor: f64, letter: &str| format!("{} {letter}", significant(value / divisor, 3));
    match value.abs() {
        size if size >= 999_500_000.0 => scaled(1e9, "G"),
        size if size >= 999_500.0 => scaled(1e6, "M"),
        size if size >= 9_995.0 => scaled(1e3, "k"),
        _ => amount(value),
    }
}

/// `1.24 M (1.10–1.31)` with the unit once, where all three share it.
pub(super) fn ranged(amount: &Amount) -> String {
    let [value, low, high] = [amount.value, amount.low, amount.high].map(money);
    if low == high {
        return value;
    }
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    if let Some(shared) = unit(&value)
        && unit(&low).as_ref() == Some(&shared)
        && unit(&high).as_ref() == Some(&shared)
    {
        let bare = |text: &str| text.trim_end_matches(&shared).trim_end().to_owned();
        return format!("{value} ({}–{})", bare(&low), bare(&high));
    }
    format!("{value} ({low}–{high})")
}

/// An exact amount as a decimal text with at least cents: `1234.50`, `0.003412`.
pub(super) fn cents(money: Money) -> String {
    let fraction = Fraction::of_money(money);
    let exact = fraction.plain(6);
    match exact.split_once('.') {
        Some((_, decimals)) if decimals.len() > 2 => exact,
        _ => fraction.decimal(2),
    }
}

/// `62 % (48–80)`.
pub(super) fn band_share(band: &Band) -> String {
    let percent = |value: Fraction| significant(value.as_f64() * 100.0, 3);
    format!(
        "{} % ({}–{})",
        percent(band.value),
        percent(band.low),
        percent(band.high)
    )
}

pub(super) fn band_number(band: &Band) -> String {
    let of = |value: Fraction| number(value.as_f64());
    if band.low == band.high {
        return of(band.value);
    }
    format!("{} ({}–{})", of(band.value), of(band.low), of(band.high))
}

/// An assumption's figure as people write it: `8 %`, `0.0904`, `5 years`.
pub(super) fn input_value(input: &CostInput, value: Fraction) -> String {
    match input.key.unit() {
        CostUnit::Share | CostUnit::ShareOf(_) => {
            format!("{} %", significant(value.as_f64() * 100.0, 3))
        }
        CostUnit::Money(_) => amount(value.as_f64()),
        CostUnit::Plain("" | "load") => number(value.as_f64()),
        CostUnit::Plain(unit) => format!("{} {unit}", number(value.as_f64())),
    }
}
