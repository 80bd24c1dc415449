//! Exact fractions.

use gpuwise_units::{Currency, Fraction, Money};
use proptest::prelude::*;
use std::cmp::Ordering;

fn of(numerator: i128, denominator: i128) -> Fraction {
    Fraction::new(numerator, denominator).expect("a fraction")
}

#[test]
fn halves_are_rounded_away_from_zero() {
    let check = |numerator, denominator, decimals, expected: &str| {
        let shown = of(numerator, denominator).decimal(decimals);
        assert_eq!(shown, expected, "{numerator}/{denominator}");
    };
    check(1, 2, 0, "1");
    check(-1, 2, 0, "-1");
    check(5, 2, 0, "3");
    check(1, 3, 4, "0.3333");
    check(2, 3, 4, "0.6667");
    check(1_005, 1000, 2, "1.01");
    check(-1_005, 1000, 2, "-1.01");
    check(7, -2, 1, "-3.5");
    check(i128::MAX, 1, 0, "170141183460469231731687303715884105727");
    assert_eq!(of(6, 4).plain(9), "1.5");
    assert_eq!(Fraction::whole(100).plain(3), "100");
}

#[test]
fn what_is_too_large_or_undefined_is_none() {
    let large = of(i128::MAX, 3);
    assert_eq!(large.times(Fraction::whole(7)), None);
    assert_eq!(large.plus(of(1, 7)), None);
    assert_eq!(Fraction::ONE.over(Fraction::ZERO), None);
    assert_eq!(Fraction::new(1, 0), None);
    assert_eq!(Fraction::nearest(f64::NAN, 3), None);
    assert_eq!(Fraction::whole(i64::MAX).to_money(Currency::USD), None);
    for text in [
        "",
        ".",
        "1e3",
        "1.2.3",
        "+1",
        "1,5",
        "0.1234567890123456789",
        "½",
    ] {
        assert!(Fraction::from_decimal(text).is_err(), "{text}");
    }
}

#[test]
fn large_ones_keep_their_order() {
    let (least, most) = (
        of(i128::MAX - 2, i128::MAX - 1),
        of(i128::MAX - 1, i128::MAX),
    );
    assert_eq!(least.cmp(&most), Ordering::Less);
    assert_eq!(most.cmp(&least), Ordering::Greater);
    assert!(most < Fraction::ONE);
    assert!(of(i128::MAX, 2) > of(i128::MAX - 4, 2));
    assert!(least.negated() > most.negated());
    assert!(of(i128::MAX - 1, i128::MAX) < of(i128::MAX, i128::MAX - 1));
}

proptest! {
    /// The laws of a field, floor and ceiling, and what a decimal text comes back as.
    #[test]
    fn laws(a in -1_000_000_i128..1_000_000, b in 1_i128..10_000, c in -1_000_000_i128..1_000_000, d in 1_i128..10_000, places in 0_u32..9) {
        let (left, right) = (of(a, b), of(c, d));
        let sum = left.plus(right).expect("a sum");
        prop_assert_eq!(sum.minus(right), Some(left));
        prop_assert_eq!(sum, of(a * d + c * b, b * d));
        if c != 0 {
            prop_assert_eq!(left.times(right).and_then(|product| product.over(right)), Some(left));
        }
        prop_assert_eq!(left.cmp(&right), (a * d).cmp(&(c * b)));
        prop_assert_eq!(left.floor(), of(a.div_euclid(b), 1));
        prop_assert_eq!(left.ceiling(), of(-(-a).div_euclid(b), 1));
        let rounded = left.rounded(places).expect("a rounded one");
        prop_assert_eq!(Fraction::from_decimal(&left.decimal(places)), Ok(rounded));
        let off = rounded.minus(left).expect("a difference");
        let half = of(1, 2 * 10_i128.pow(places));
        prop_assert!(off <= half && off.negated() <= half);
    }

    #[test]
    fn money_comes_back(micros in any::<i64>()) {
        let money = Money { micros, currency: Currency::USD };
        prop_assert_eq!(Fraction::of_money(money).to_money(Currency::USD), Some(money));
    }
}
