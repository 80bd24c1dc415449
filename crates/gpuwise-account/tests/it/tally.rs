//! Service levels whose events come late and out of order.

use gpuwise_account::slo::{Objective, Rule, Tally};
use gpuwise_units::{Fraction, Nanoseconds};

const MINUTE: u64 = 60_000_000_000;

fn at(minute: u64) -> Nanoseconds {
    Nanoseconds(minute * MINUTE)
}

fn tally(good_ppm: u32) -> Tally {
    Tally::new(Objective::new(good_ppm).expect("something may fail"))
}

#[test]
fn what_is_told_late_counts_when_it_happened() {
    let mut in_order = tally(990_000);
    let mut late = in_order.clone();
    let told = [
        (10, 90, 100),
        (70, 100, 100),
        (65, 50, 100),
        (3000, 100, 100),
    ];
    for (minute, good, all) in told {
        in_order.add(at(minute), good, all);
    }
    for (minute, good, all) in [told[1], told[0], told[2], told[3]] {
        late.add(at(minute), good, all);
    }
    for now in [71, 100, 3001] {
        for rule in Rule::ALL {
            assert_eq!(
                in_order.burn_rate(at(now), rule.long()),
                late.burn_rate(at(now), rule.long())
            );
        }
    }
    // 60 bad of 300 where one of a hundred may be: by hand 20 times too many.
    let six_hours = Rule::SixHours.long();
    assert_eq!(late.burn_rate(at(71), six_hours), Fraction::whole(20));
    assert_eq!(late.error_budget(at(3001)).bad, 60);
}

#[test]
fn without_events_nothing_burns() {
    let mut tally = tally(999_000);
    tally.add(at(5), 0, 0);
    assert_eq!(tally.burn_rate(at(6), Rule::Hour.long()), Fraction::ZERO);
    assert!(tally.alerts(at(6)).is_empty());
}

#[test]
fn both_windows_must_burn() {
    let mut tally = tally(990_000);
    tally.add(at(100), 0, 100);
    let broken: Vec<Rule> = tally.alerts(at(101)).iter().map(|one| one.rule).collect();
    assert_eq!(broken, Rule::ALL);
    // Ten minutes later the hour still burns, its short window does not.
    let broken: Vec<Rule> = tally.alerts(at(110)).iter().map(|one| one.rule).collect();
    assert!(!broken.contains(&Rule::Hour), "{broken:?}");
}

#[test]
fn a_month_of_minutes_is_kept_in_hours() {
    let mut tally = tally(990_000);
    for minute in 0..30 * 24 * 60 {
        tally.add(at(minute), 99, 100);
    }
    let budget = tally.error_budget(at(30 * 24 * 60));
    assert_eq!(budget.events, 30 * 24 * 60 * 100);
    assert_eq!(budget.left, Fraction::ZERO);
}
