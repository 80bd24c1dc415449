//! Quantities: parsing, printing and exact arithmetic.

mod architecture;
mod currencies;
mod documents;
mod fraction;
mod fuzzing;

use gpuwise_units::{
    Bytes, Currency, Money, Nanoseconds, Parameters, PerSecond, Percentile, Seconds, Tokens,
    significant,
};
use proptest::prelude::*;
use std::str::FromStr;

fn check<T: FromStr + ToString>(text: &str, shown: Option<&str>) {
    let parsed = text.parse::<T>().ok().map(|value| value.to_string());
    assert_eq!(parsed.as_deref(), shown, "{text}");
}

#[test]
fn sizes_name_their_unit() {
    check::<Bytes>("80GiB", Some("80 GiB"));
    check::<Bytes>("80 GB", Some("74.5 GiB"));
    check::<Bytes>("81559MiB", Some("79.6 GiB"));
    check::<Bytes>("512B", Some("512 B"));
    check::<Bytes>("1.5TiB", Some("1.5 TiB"));
    for wrong in [
        "80", "80G", "80 gb", "-1GB", "NaN GB", "inf GB", "GB", "", "1e30GB", "9e9TB",
    ] {
        check::<Bytes>(wrong, None);
    }
}

#[test]
fn times_name_their_unit() {
    check::<Nanoseconds>("40ms", Some("40 ms"));
    check::<Nanoseconds>("1s", Some("1 s"));
    check::<Nanoseconds>("3d", Some("3 d 0 h"));
    check::<Nanoseconds>("5min", Some("5 min"));
    check::<Nanoseconds>("15m", Some("15 min"));
    for wrong in ["40", "1 hour", "-3s", "1e40s"] {
        check::<Nanoseconds>(wrong, None);
    }
}

#[test]
fn counts_are_whole() {
    check::<Tokens>("2000", Some("2000"));
    check::<Tokens>("32k", Some("32,000"));
    check::<Tokens>("0.5", None);
    check::<Parameters>("8e9", Some("8B"));
    check::<Parameters>("70.6B", Some("70.6B"));
    // As vLLM reads its own flags.
    for (text, tokens) in [
        ("32k", 32_000),
        ("32K", 32_768),
        ("1m", 1_000_000),
        ("1M", 1_048_576),
        ("1.5k", 1500),
    ] {
        assert_eq!(
            text.parse::<Tokens>().map(|one| one.0).ok(),
            Some(tokens),
            "{text}"
        );
    }
    check::<Parameters>("560M", Some("560M"));
    check::<Parameters>("1e300", None);
}

#[test]
fn percentiles_are_inside() {
    check::<Percentile>("p95", Some("p95"));
    check::<Percentile>("p99.9", Some("p99.9"));
    for wrong in ["95", "p0", "p100", "p101", "p", "pNaN"] {
        check::<Percentile>(wrong, None);
    }
}

#[test]
fn rates_are_per_second() {
    assert_eq!("600/min".parse(), Ok(PerSecond::new(10.0)));
    assert_eq!("8".parse(), Ok(PerSecond::new(8.0)));
    assert!("8 rps".parse::<PerSecond>().is_err());
}

#[test]
fn money_is_exact() {
    let usd = |text| Money::from_decimal(text, Currency::USD);
    assert_eq!(usd("32.77").map(|m| m.micros), Ok(32_770_000));
    assert_eq!(usd("0.54117").map(|m| m.micros), Ok(541_170));
    assert_eq!(usd("19.7996924").map(|m| m.micros), Ok(19_799_692));
    assert_eq!(usd("0.0000005").map(|m| m.micros), Ok(0), "half to even");
    assert_eq!(usd("0.0000015").map(|m| m.micros), Ok(2));
    assert_eq!(usd("32.77").map(|m| m.times(3, 8).micros), Ok(12_288_750));
    for wrong in ["", ".", "1,000", "1e3", "12$", "99999999999999999999"] {
        assert!(usd(wrong).is_err(), "{wrong}");
    }
    check::<Money>("2.50USD", Some("2.50 USD"));
    check::<Money>("2.50", None);
    check::<Money>("2.50€", None);
}

#[test]
fn three_digits_are_enough_for_people() {
    for (value, shown) in [
        (0.0, "0"),
        (0.001234, "0.00123"),
        (9.996, "10"),
        (99.96, "100"),
        (1234.0, "1230"),
        (12345.0, "12,300"),
        (-5.67891, "-5.68"),
        (1e-9, "0.000000001"),
        (-2.2e-300, "-2.2e-300"),
        (f64::NAN, "–"),
    ] {
        assert_eq!(significant(value, 3), shown);
    }
    assert_eq!(Seconds::new(0.0294).to_string(), "29.4 ms");
    assert_eq!(Seconds::new(187_000.0).to_string(), "2 d 3 h");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,24}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Nanoseconds>();
        let _ = text.parse::<Tokens>();
        let _ = text.parse::<Parameters>();
        let _ = text.parse::<Percentile>();
        let _ = text.parse::<PerSecond>();
        let _ = text.parse::<Money>();
        let _ = text.parse::<Currency>();
    }

    #[test]
    fn money_rounds_to_nearest(micros in -1_000_000_000i64..1_000_000_000, n in 1i64..1_000, d in 1i64..1_000) {
        let exact = micros as f64 * n as f64 / d as f64;
        let got = Money { micros, currency: Currency::USD }.times(n, d).micros as f64;
        prop_assert!((got - exact).abs() <= 0.5 + 1e-6 * exact.abs());
    }

    #[test]
    fn bytes_survive_their_text(mib in 0u64..10_000_000) {
        let bytes = Bytes::from_mib(mib);
        prop_assert_eq!(format!("{mib}MiB").parse::<Bytes>(), Ok(bytes));
    }
}
