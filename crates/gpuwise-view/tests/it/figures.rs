use gpuwise_domain::estimate::Estimate;
use gpuwise_units::Bytes;
use gpuwise_view::figures::{
    TimeUnit, amount, count, gib, percent, ranged, ranged_seconds, ranged_unit, seconds,
};

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high }
}

#[test]
fn ranges_have_no_more_digits_than_they_allow() {
    let check = |given: Estimate, expected: &str| assert_eq!(ranged_seconds(&given), expected);
    check(estimate(0.029_4, 0.025_1, 0.033_4), "29 ms (25–33)");
    check(estimate(0.48, 0.391, 0.622), "480 ms (390–620)");
    check(estimate(3.21, 2.5, 4.44), "3.2 s (2.5–4.4)");
    check(estimate(1.049, 0.85, 1.2), "1 s (0.85–1.2)");
    check(estimate(0.1234, 0.1226, 0.1242), "123 ms (123–124)");
    check(Estimate::exact(0.25), "250 ms");
    check(estimate(f64::NAN, 0.0, 1.0), "–");
    check(estimate(0.25, 0.1, f64::INFINITY), "250 ms");
    assert_eq!(
        ranged(&estimate(13_456.0, 11_000.0, 16_200.0)),
        "13,000 (11,000–16,000)"
    );
    assert_eq!(
        ranged_unit(&estimate(2400.0, 2100.0, 2700.0), "tokens/s"),
        "2400 tokens/s (2100–2700)"
    );
}

#[test]
fn plain_figures() {
    let check = |shown: String, expected: &str| assert_eq!(shown, expected);
    check(seconds(f64::INFINITY), "–");
    check(seconds(187_200.0), "2 d 4 h");
    check(count(9999), "9999");
    check(count(1_234_567), "1,234,567");
    check(percent(0.714), "71 %");
    check(percent(0.0042), "0.4 %");
    check(percent(0.0), "0 %");
    check(percent(1.0), "100 %");
    check(percent(f64::NAN), "–");
    check(amount(13.156), "13.16");
    check(amount(1_234.5), "1,234");
    check(amount(0.0123), "0.012");
    check(amount(0.0), "0");
    check(gib(Bytes::from_mib(81_559)), "79.6");
    check(gib(Bytes::from_mib(300)), "0.29");
    check(gib(Bytes::from_mib(2)), "< 0.01");
    check(gib(Bytes::ZERO), "0");
}

#[test]
fn a_column_of_times_shares_the_unit_that_reads_well() {
    let check = |values: &[f64], expected: &str| {
        assert_eq!(
            TimeUnit::of(values.iter().copied()).symbol(),
            expected,
            "{values:?}"
        );
    };
    check(&[0.029, 0.04], "ms");
    check(&[0.48, 1.2], "ms");
    check(&[1.2, 3.4], "s");
    check(&[0.5, 12.0], "s");
    check(&[2e-5], "µs");
    check(&[700.0, 4000.0], "min");
    check(&[8000.0, 40_000.0], "h");
    check(&[], "ms");
}
