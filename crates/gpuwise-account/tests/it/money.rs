//! Currencies, rounding and parts.

use gpuwise_account::money::{amount, credits, decimals, divide, payable, split};
use gpuwise_units::{Currency, Fraction, Money, half_even};
use proptest::prelude::*;

fn money(micros: i64, code: &str) -> Money {
    Money {
        micros,
        currency: code.parse().unwrap(),
    }
}

#[test]
fn currencies_have_their_decimals() {
    for (code, wanted) in [
        ("JPY", Some(0)),
        ("USD", Some(2)),
        ("EUR", Some(2)),
        ("KWD", Some(3)),
        ("CLF", Some(4)),
        ("AAA", None),
    ] {
        assert_eq!(decimals(code.parse().unwrap()), wanted, "{code}");
    }
    assert_eq!(decimals(credits()), Some(6));
    assert_ne!(credits(), Currency::USD);
}

#[test]
fn halves_go_to_the_even() {
    for (numerator, denominator, wanted) in [
        (5, 2, 2),
        (7, 2, 4),
        (-5, 2, -2),
        (-7, 2, -4),
        (5, -2, -2),
        (-7, -2, 4),
        (8, 3, 3),
        (-8, 3, -3),
        (7, 3, 2),
        (-1, 2, 0),
        (0, 7, 0),
    ] {
        assert_eq!(
            half_even(numerator, denominator),
            wanted,
            "{numerator}/{denominator}"
        );
    }
    assert_eq!(money(5, "USD").times(1, 2).micros, 2);
    for (text, wanted) in [
        ("0.0000025", 2),
        ("0.0000035", 4),
        ("0.00000251", 3),
        ("-0.0000015", -2),
    ] {
        let parsed = Money::from_decimal(text, Currency::USD).unwrap();
        assert_eq!(parsed.micros, wanted, "{text}");
    }
    let half = Fraction::new(5, 2_000_000).unwrap();
    assert_eq!(half.to_money(Currency::USD), Some(money(2, "USD")));
    assert_eq!(money(-15, "USD").times(1, 10).micros, -2);
}

#[test]
fn what_is_due_has_the_currencys_decimals() {
    for (micros, code, due) in [
        (1_234_567, "USD", 1_230_000),
        (1_235_000, "USD", 1_240_000),
        (1_245_000, "USD", 1_240_000),
        (1_500_000, "JPY", 2_000_000),
        (2_500_000, "JPY", 2_000_000),
        (-1_234_567, "KWD", -1_235_000),
        (1_234_567, "CRD", 1_234_567),
    ] {
        assert_eq!(
            payable(money(micros, code)),
            money(due, code),
            "{micros} {code}"
        );
    }
}

#[test]
fn amounts_beyond_what_is_kept_are_none() {
    let price = money(i64::MAX, "USD");
    assert_eq!(amount(price, 1, 1), Some(price));
    assert_eq!(amount(price, 2, 1), None);
    // The product leaves 128 bits, the amount does not.
    assert_eq!(amount(price, i128::MAX / 4, i128::MAX / 4), Some(price));
    assert_eq!(amount(price, 1, 0), None);
}

proptest! {
    #[test]
    fn parts_sum_to_the_whole_and_are_near_their_share(
        total in -1_000_000_000_000_000_i64..1_000_000_000_000_000,
        weights in proptest::collection::vec(0_u64..10_000_000_000, 1..40),
    ) {
        let parts = split(i128::from(total), &weights);
        prop_assert_eq!(parts.iter().sum::<i128>(), i128::from(total));
        let whole: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
        for (part, weight) in parts.iter().zip(&weights) {
            if whole > 0 {
                // Less than one from the exact share.
                let off = part * whole - i128::from(total) * i128::from(*weight);
                prop_assert!(off.abs() < whole, "{} of {}", part, weight);
            }
        }
        let amount = money(total, "USD");
        let sum: i64 = divide(amount, &weights).iter().map(|part| part.micros).sum();
        prop_assert_eq!(sum, total);
    }

    #[test]
    fn weights_of_any_size_have_parts(total: i64, weights: Vec<u128>) {
        let sum: i128 = split(i128::from(total), &weights).iter().sum();
        prop_assert_eq!(sum, if weights.is_empty() { 0 } else { i128::from(total) });
    }
}
