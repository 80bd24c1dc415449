//! What people write about bills.

use gpuwise_domain::bill::CostKey;
use gpuwise_read::bill::{PlannedUnit, assumption, growth, loads, months, planned, served};
use gpuwise_units::Fraction;
use proptest::prelude::*;

fn text(number: Fraction) -> String {
    number.plain(12)
}

#[test]
fn assumptions_are_read_in_the_unit_that_they_are_counted_in() {
    let check = |key: CostKey, given: &str, expected: Option<[&str; 3]>| {
        let read = assumption(key, given).map(|read| [read.low, read.value, read.high].map(text));
        let expected = expected.map(|ends| ends.map(str::to_owned));
        assert_eq!(read.ok(), expected, "{given}");
    };
    check(
        CostKey::Capital,
        "250000..350000USD",
        Some(["250000", "300000", "350000"]),
    );
    check(
        CostKey::Capital,
        "250000..260000..350000 USD",
        Some(["250000", "260000", "350000"]),
    );
    check(CostKey::Capital, "300000", None);
    check(CostKey::Capital, "350000..250000USD", None);
    check(CostKey::OnDemand, "31.464USD/h", Some(["31.464"; 3]));
    check(CostKey::Energy, "0.0824USD/kWh", Some(["0.0824"; 3]));
    check(CostKey::Duty, "35..45%", Some(["0.35", "0.4", "0.45"]));
    check(CostKey::Duty, "0.5", Some(["0.5"; 3]));
    check(CostKey::Rate, "8%/year", Some(["0.08"; 3]));
    check(CostKey::Rate, "8 percent", None);
    check(CostKey::Life, "4..6y", Some(["4", "5", "6"]));
    check(CostKey::Life, "30mo", Some(["2.5"; 3]));
    check(CostKey::Lead, "2..6mo", Some(["2", "4", "6"]));
    check(CostKey::Lead, "4", None);
    check(CostKey::Power, "7100W", Some(["7.1"; 3]));
    check(CostKey::Grid, "0.38kg/kWh", Some(["380"; 3]));
    check(CostKey::Pue, "1.2..1.3..1.5", Some(["1.2", "1.3", "1.5"]));
    check(CostKey::Pue, "1.2x", None);
    check(CostKey::Growth, "20%/month", Some(["0.2"; 3]));
    check(CostKey::Growth, "20%", None);
    check(CostKey::Pue, "1e3", None);
    check(CostKey::Pue, "..", None);
}

#[test]
fn a_year_of_monthly_growth_is_the_yearly_one() {
    let monthly = growth("40%/year").expect("a growth").value.as_f64();
    assert!(((1.0 + monthly).powi(12) - 1.4).abs() < 1e-9, "{monthly}");
    assert_eq!(text(growth("-2%/month").expect("a growth").value), "-0.02");
}

#[test]
fn times_and_what_is_served() {
    for (given, expected) in [
        ("36mo", Some(36)),
        ("3y", Some(36)),
        ("2.5 years", Some(30)),
        ("36", None),
        ("0.1y", None),
    ] {
        assert_eq!(months(given).ok(), expected, "{given}");
    }
    let check = |given: &str, expected: Option<(&str, &str)>| {
        let read = served(given)
            .map(|(hourly, name)| (text(hourly), name))
            .ok();
        let expected = expected.map(|(hourly, name)| (hourly.to_owned(), name.to_owned()));
        assert_eq!(read, expected, "{given}");
    };
    check("4 images/s", Some(("14400", "images")));
    check("40 hours of audio/h", Some(("40", "hours of audio")));
    check("12 scans/day", Some(("0.5", "scans")));
    check("4 images", None);
    check("0 images/s", None);
    check("4 /s", None);
}

#[test]
fn monthly_loads_say_where_they_are_wrong() {
    let read = loads("month,load\n2026-12,5\n2027-01,0.25\n").expect("loads");
    assert_eq!(
        read.into_iter().map(text).collect::<Vec<_>>(),
        ["5", "0.25"]
    );
    for (given, part) in [
        ("month,requests\n1,2\n", "line 1"),
        ("load\n", "no month"),
        ("load\n3\nmany\n", "line 3"),
        ("load\n3\n-1\n", "negative"),
        ("month,load\n1,2\n3\n", "line 3"),
    ] {
        let said = loads(given).expect_err(given).to_string();
        assert!(said.contains(part), "{said}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(given in "\\PC{0,40}") {
        for key in CostKey::ALL {
            let _ = assumption(key, &given);
        }
        let _ = (months(&given), growth(&given), served(&given), loads(&given), planned(&given));
    }
}

#[test]
fn answers_of_other_plans_are_read() {
    let job = r#"{"job":{},"model":{"name":"a-model"},"plans":[{"gpu":"L4","gpus":2,"gpus_per_host":4,
        "run":{"total_seconds":{"value":7200.0},"energy_joules":{"low":720000,"value":1440000,"high":2160000}},
        "rental":{"provider":"p","instance":"i","region":"r","terms":"spot","instances":2,
        "gpus_per_instance":1.0,"instance_price":{"amount":0.6,"currency":"EUR"},"price_date":"2026-07","price_source":"s"}}]}"#;
    let read = planned(job).expect("an answer").expect("a plan");
    assert_eq!((read.hosts, read.step, read.gpus_per_host), (2, 2, 1));
    assert_eq!(read.served, PlannedUnit::RunHours(2.0));
    assert_eq!(read.watts, Some([100.0, 200.0, 300.0]));
    let rental = read.rental.expect("a rental");
    assert_eq!(rental.terms, gpuwise_domain::offer::Terms::Spot);
    let media = r#"{"network":"FLUX","unit":"images","rate_per_second":2.0,"deployments":[{"gpu":"H100",
        "replicas":3,"gpus_per_replica":1,"capacity_per_second":{"value":3.0},"rental":null,
        "price_per_hour":{"amount":9.0,"currency":"USD"}}]}"#;
    let read = planned(media).expect("an answer").expect("a plan");
    assert_eq!((read.hosts, read.step), (3, 1));
    assert_eq!(read.served, PlannedUnit::PerSecond(2.0, "images".into()));
    assert!((read.headroom - 1.5).abs() < 1e-12);
    let price = read
        .rental
        .and_then(|rental| rental.price)
        .expect("a price");
    assert_eq!(price.0.micros, 3_000_000);
    for (text, part) in [
        (r#"{"job":{},"plans":[]}"#, "nothing fits"),
        (r#"{"job":{},"plans":[{"gpu":"L4"}]}"#, "--tokens"),
        (
            r#"{"network":"x","deployments":[{"replicas":0}]}"#,
            "/replicas",
        ),
    ] {
        let said = planned(text).expect("an answer").expect_err(part);
        assert!(said.contains(part), "{said}");
    }
    assert!(planned("{}").is_none() && planned("no JSON").is_none());
}
