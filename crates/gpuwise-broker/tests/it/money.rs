//! What leases cost, and budgets.

use crate::support::{Desk, HOUR, START, usd};
use gpuwise_account::period::Month;
use gpuwise_broker::Refusal;
use gpuwise_units::{Currency, Nanoseconds};

fn charged(desk: &Desk, tenant: &str) -> i128 {
    let month = Month::of(Nanoseconds(START));
    let statement = desk.broker.statement(desk.now, tenant, month);
    let totals = statement.totals();
    totals.get(&Currency::USD).map_or(0, |total| total.micros)
}

#[test]
fn a_lease_costs_from_start_to_end_by_the_second() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 4, None).expect("is admitted");
    desk.pass(500);
    desk.settle();
    desk.pass(3600);
    // 4 GPUs × 1 h × 2.50 USD, while it goes on.
    assert_eq!(charged(&desk, "vision"), 10_000_000);
    desk.pass(1800);
    desk.release(lease);
    desk.pass(3);
    desk.settle();
    // 5,403 s in all: what is told to end has its GPUs until it has ended.
    assert_eq!(charged(&desk, "vision"), 4 * 2_500_000 * 5403 / 3600);
    desk.pass(86_400);
    assert_eq!(charged(&desk, "vision"), 4 * 2_500_000 * 5403 / 3600);
}

#[test]
fn a_hundred_ask_for_a_budget_of_ten() {
    let mut desk = Desk::new(100);
    // Each may cost 2.50 USD, and a µ-unit for rounding.
    desk.tenant("vision", Some("25.00001"));
    let admitted = (0..100)
        .filter(|_| desk.ask("vision", 1, Some(1)).is_ok())
        .count();
    assert_eq!(admitted, 10);
    let wanted = Refusal::Budget {
        tenant: "vision".into(),
        month: "2026-11".into(),
        budget: usd("25.00001"),
        left: usd("0"),
        needed: usd("2.500001"),
    };
    assert_eq!(desk.ask("vision", 1, Some(1)), Err(wanted));
    // Those who run hold their part as those who wait do.
    desk.settle();
    assert!(desk.ask("vision", 1, Some(1)).is_err());
    // One that is given back early costs what it took, and frees the rest.
    desk.pass(1800);
    desk.release(1);
    desk.settle();
    assert!(desk.ask("vision", 1, Some(1)).is_err(), "1.25 USD are left");
    desk.release(2);
    desk.settle();
    assert!(desk.ask("vision", 1, Some(1)).is_ok());
}

#[test]
fn spent_and_reserved_are_the_statement_and_the_rest() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("100"));
    desk.ask("vision", 4, Some(2)).expect("is admitted");
    desk.settle();
    desk.pass(3600);
    let (spent, reserved) = desk
        .broker
        .spending(desk.now, "vision")
        .expect("has a budget");
    // Each part of a grant is rounded up, and what is held back has a µ-unit more for each.
    assert_eq!(spent, 10_000_000);
    assert!((10_000_000..=10_000_010).contains(&reserved), "{reserved}");
}

#[test]
fn a_lease_without_end_holds_the_rest_of_the_month() {
    let mut desk = Desk::new(1);
    // 30 days of one GPU cost 1,800 USD.
    desk.tenant("vision", Some("1800"));
    assert!(matches!(
        desk.ask("vision", 1, None),
        Err(Refusal::Budget { .. })
    ));
    desk.tenant("audio", Some("1800.01"));
    assert!(desk.ask("audio", 1, None).is_ok());
}

#[test]
fn the_next_month_is_another_budget() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("10.0001"));
    desk.ask("vision", 4, Some(1)).expect("is admitted");
    desk.settle();
    desk.pass(3600);
    desk.settle();
    assert!(desk.ask("vision", 1, Some(1)).is_err());
    desk.pass(30 * 24 * HOUR / 1_000_000_000);
    assert!(desk.ask("vision", 4, Some(1)).is_ok());
}

#[test]
fn without_end_it_ends_where_the_next_month_has_no_money() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", Some("1800.01"));
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    // November has 30 days, December 31: it may cost 1,860 USD.
    desk.pass(30 * 24 * 3600);
    assert_eq!(desk.state(lease), gpuwise_broker::LeaseState::Draining);
    let mut other = Desk::new(1);
    other.tenant("vision", Some("1860.01"));
    let lease = other.ask("vision", 1, None).expect("is admitted");
    other.settle();
    other.pass(30 * 24 * 3600);
    assert_eq!(other.state(lease), gpuwise_broker::LeaseState::Active);
    assert!(other.ask("vision", 1, Some(1)).is_err());
}
