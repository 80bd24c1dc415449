//! Error budgets.

use crate::support::at;
use gpuwise_account::slo::{Objective, Rule, Severity, Tally};
use gpuwise_units::{Fraction, Nanoseconds};

const MINUTE: u64 = 60;

/// A day of events, a hundred a minute, with so many of a hundred bad in each of its last minutes.
fn level(bad_minutes: u64, bad: u64) -> Tally {
    let mut level = Tally::new(Objective::new(999_000).unwrap());
    for minute in 0..1440 {
        let good = if minute >= 1440 - bad_minutes {
            100 - bad
        } else {
            100
        };
        level.add(at(1, minute * MINUTE), good, 100);
    }
    level
}

#[test]
fn both_windows_must_burn() {
    let broken = |level: &Tally| -> Vec<Rule> {
        level
            .alerts(at(2, 0))
            .iter()
            .map(|alert| alert.rule)
            .collect()
    };
    // 2 % of errors are 20 times what 99.9 % allows; an hour of it is the page, and not yet a ticket's.
    assert_eq!(broken(&level(60, 2)), [Rule::Hour]);
    assert_eq!(Rule::Hour.severity(), Severity::Page);
    // Ten minutes of it do not fill the hour.
    assert_eq!(broken(&level(10, 2)), []);
    // A day at seven times breaks six hours, the day and what there is of three days.
    assert_eq!(
        broken(&level(1440, 1)),
        [Rule::SixHours, Rule::Day, Rule::ThreeDays]
    );
    // What is over does not call anybody: the short window is quiet.
    let mut over = level(60, 2);
    for minute in 0..10 {
        over.add(at(2, minute * MINUTE), 100, 100);
    }
    assert_eq!(over.alerts(at(2, 600)), []);
    assert_eq!(
        over.burn_rate(at(2, 600), Nanoseconds(300_000_000_000)),
        Fraction::ZERO
    );
}

#[test]
fn without_traffic_there_is_no_error() {
    let mut level = Tally::new(Objective::new(990_000).unwrap());
    assert_eq!(level.alerts(at(1, 0)), []);
    level.add(at(1, 0), 0, 0);
    level.add(at(1, 600), 0, 0);
    assert_eq!(
        level.burn_rate(at(1, 600), Rule::Hour.long()),
        Fraction::ZERO
    );
    assert_eq!(level.error_budget(at(1, 600)).left, Fraction::ONE);
    assert!(Objective::new(1_000_000).is_none());
}

#[test]
fn a_budget_is_spent() {
    // 120 bad of 144,000, of which 144 may be.
    let budget = level(60, 2).error_budget(at(2, 0));
    assert_eq!((budget.bad, budget.events), (120, 144_000));
    assert_eq!(budget.left, Fraction::new(1, 6).unwrap());
}
