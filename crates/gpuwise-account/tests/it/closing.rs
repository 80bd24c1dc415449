//! Closed months stay as they were stated; what comes later corrects them.

use crate::support::{at, price, record, taken, usd};
use gpuwise_account::{
    books::Books,
    period::{DAY, HOUR, Month},
    prices::PriceBook,
    statement::{Cause, SharedBy, SharedCost, Statement},
    usage::{Limits, Outcome, UsageRecord},
};
use gpuwise_units::{Currency, Nanoseconds};

fn november() -> Month {
    "2026-11".parse().unwrap()
}

fn total(statement: &Statement) -> i128 {
    statement
        .totals()
        .get(&Currency::USD)
        .map_or(0, |total| total.micros)
}

fn books(records: &[UsageRecord]) -> Books {
    let mut books = Books::new(Limits::default());
    books.set_prices(PriceBook::new(vec![price("p", "2.00")]).unwrap());
    for record in records {
        taken(books.record(at(30, 0), record));
    }
    books
}

#[test]
fn a_late_record_reverses_and_restates_in_the_open_month() {
    let mut books = books(&[record("a", at(1, 0), at(1, 3600))]);
    let december = november().next();
    books.close(november());
    assert_eq!(books.open_month(), Some(december));
    let stated = books.statement("vision", november());
    let late = record("late", at(1, 3600), at(1, 5400));
    let now = Nanoseconds(december.start().0 + 5 * DAY);
    assert_eq!(books.record(now, &late), Outcome::Correction(november()));
    assert_eq!(books.statement("vision", november()), stated, "it stays");
    let open = books.statement("vision", december);
    let shown: Vec<_> = (open.lines.iter())
        .map(|line| (line.cause.clone(), line.charge.unwrap()))
        .collect();
    assert_eq!(
        shown,
        [
            (Cause::Reversal(november()), usd("-2.00")),
            (Cause::Restated(november()), usd("3.00")),
        ]
    );
    assert_eq!(open.totals()[&Currency::USD].corrections, 1_000_000);
    // Once that is stated, there is nothing to correct.
    books.close(december);
    assert_eq!(books.statement("vision", december), open);
    assert_eq!(books.statement("vision", december.next()).lines, []);
}

#[test]
fn a_price_of_the_past_and_a_new_tenant_are_corrections_too() {
    let mut books = books(&[record("a", at(1, 0), at(1, 3600))]);
    books.close(november());
    books.set_prices(PriceBook::new(vec![price("cheaper", "1.50")]).unwrap());
    let mut other = record("b", at(2, 0), at(2, 3600));
    (other.tenant, other.lease) = ("speech".into(), "L-2".into());
    taken(books.record(at(40, 0), &other));
    let open = november().next();
    assert_eq!(total(&books.statement("vision", open)), -500_000);
    assert_eq!(total(&books.statement("speech", open)), 1_500_000);
    // It had nothing when November was closed.
    assert_eq!(total(&books.statement("speech", november())), 0);
}

#[test]
fn shared_costs_sum_to_the_cost() {
    let mut records = Vec::new();
    for (n, tenant) in ["a", "b", "c"].into_iter().enumerate() {
        let mut held = record(tenant, at(1, 0), at(1, 600 * (n as u64 + 1)));
        held.tenant = tenant.into();
        held.lease = format!("L-{tenant}");
        held.used.sm_ns = (n < 2).then_some(60);
        records.push(held);
    }
    let of = |by, tenant: &str| {
        let mut books = books(&records);
        let cost = SharedCost {
            name: "network".into(),
            cost: usd("100.00"),
            by,
        };
        books.share(november(), cost);
        let statement = books.statement(tenant, november());
        statement.totals()[&Currency::USD].shared
    };
    let parts = |by| ["a", "b", "c"].map(|tenant| of(by, tenant));
    assert_eq!(
        parts(SharedBy::Granted),
        [16_666_667, 33_333_333, 50_000_000]
    );
    assert_eq!(parts(SharedBy::Used), [50_000_000, 50_000_000, 0]);
    assert_eq!(parts(SharedBy::Even), [33_333_334, 33_333_333, 33_333_333]);
}

#[test]
fn what_is_held_now_is_in_the_live_statement_alone() {
    let mut books = books(&[record("a", at(1, 0), at(1, 3600))]);
    let mut other = record("b", at(1, 0), at(1, 3600));
    (other.tenant, other.lease) = ("speech".into(), "L-2".into());
    taken(books.record(at(30, 0), &other));
    books.share(
        november(),
        SharedCost {
            name: "network".into(),
            cost: usd("10.00"),
            by: SharedBy::Granted,
        },
    );
    let recorded = books.statement("vision", november());
    assert_eq!(total(&recorded), 2_000_000 + 5_000_000);
    // It goes on from half past midnight to two: half an hour of that is recorded already.
    let holding = [record("now", at(1, 1800), at(1, 7200))];
    let live = books.live_statement("vision", november(), &holding, &[]);
    assert_eq!(total(&live), 4_000_000 + 5_000_000);
    assert_eq!(books.statement("vision", november()), recorded);
    books.close(november());
    let closed = books.live_statement("vision", november(), &holding, &[]);
    assert_eq!(closed, recorded);
}

#[test]
fn what_is_forgotten_stays_stated() {
    let mut books = books(&[record("a", at(1, 0), at(1, 3600))]);
    let december = november().next();
    assert!(!books.forget(december, at(35, 0)), "it is open");
    books.close(november());
    assert!(books.forget(december, at(35, 0)));
    assert!(books.meter().series().is_empty());
    assert_eq!(total(&books.statement("vision", november())), 2_000_000);
    assert_eq!(books.statement("vision", december).lines, []);
    // Its records are still known: it is not counted again.
    let again = record("a", at(1, 0), at(1, 3600));
    assert_eq!(books.record(at(35, 0), &again), Outcome::Duplicate);
}

#[test]
fn a_holding_over_the_end_of_the_month_is_charged_once() {
    let mut hourly = price("p", "2.00");
    hourly.granularity_ns = HOUR;
    let mut books = books(&[]);
    let over = record("a", at(30, 24 * 3600 - 1800), at(31, 900));
    assert_eq!(books.record(at(31, 1000), &over), Outcome::Counted);
    books.set_prices(PriceBook::new(vec![hourly]).unwrap());
    // Half an hour in November, a quarter in December, where the rest of the hour is added.
    assert_eq!(total(&books.statement("vision", november())), 1_000_000);
    assert_eq!(
        total(&books.statement("vision", november().next())),
        1_000_000
    );
}
