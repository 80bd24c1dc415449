//! What lent capacity earned, worked by hand.

use crate::support::{SECOND, at, price, record, taken, usd};
use gpuwise_account::{
    books::Books,
    conserve::{Device, Part, balances},
    focus::{Account, rows},
    ledger::{Ledger, of_statement},
    lent::Loan,
    period::Interval,
    prices::{BookError, PriceBook, PriceEntry},
    statement::Unpriced,
    usage::{Granted, Limits, Sharing, Spans, UsageRecord},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Currency, Fraction, Money};

fn books(entries: Vec<PriceEntry>) -> Books {
    let mut books = Books::new(Limits::default());
    books.set_prices(PriceBook::new(entries).unwrap());
    books
}

fn loan(lease: &str, device: &str) -> Loan {
    Loan {
        tenant: "vision".into(),
        lease: lease.into(),
        borrower: "batch".into(),
        device: device.into(),
        kind: "H100".into(),
        granted: Granted::Whole,
        isolation: Sharing::Exclusive,
        class: Terms::Spot,
    }
}

fn seconds(from: u64, to: u64) -> Interval {
    Interval::new(at(1, from), at(1, to))
}

fn borrowed(id: &str, time: Interval) -> UsageRecord {
    UsageRecord {
        tenant: "batch".into(),
        lease: "L-9".into(),
        class: Terms::Spot,
        ..record(id, time.start, time.end)
    }
}

fn charges(books: &Books, tenant: &str) -> Vec<Result<Money, Unpriced>> {
    let statement = books.statement(tenant, "2026-11".parse().unwrap());
    statement.lines.iter().map(|line| line.charge).collect()
}

#[test]
fn half_of_what_the_borrower_pays_is_earned_and_each_line_is_rounded_once() {
    let mut books = books(vec![price("p", "2.00")]);
    // 1,201 s in two stretches, of which one is told twice; 7 s more by another lease.
    for (from, to) in [(0, 1), (100, 1300), (100, 1300)] {
        books.lend(loan("L-2", "GPU-0"), seconds(from, to));
    }
    books.lend(loan("L-3", "GPU-1"), seconds(0, 7));
    let statement = books.statement("vision", "2026-11".parse().unwrap());
    let line = &statement.lines[0];
    // 1,201 s × 1,000,000 / 3600 s = 333,611.1…
    assert_eq!(line.charge, Ok(usd("-0.333611")));
    assert_eq!(line.rounding(), Fraction::new(-1, 9));
    let item = line.item.as_ref().unwrap();
    assert_eq!(
        (item.granted_ns, item.lent_milli),
        (1201 * SECOND, Some(500))
    );
    assert_eq!(item.price.as_ref().unwrap().unit_price.plain(6), "1");
    // 7 s: 1,944.4…
    assert_eq!(statement.lines[1].charge, Ok(usd("-0.001944")));
    let total = statement.totals()[&Currency::USD];
    assert_eq!((total.micros, total.credits), (-335_555, -335_555));
}

#[test]
fn the_share_and_the_price_are_those_of_the_borrower_at_the_time() {
    let mut agreed = price("agreed", "1.00");
    agreed.applies.tenant = Some("batch".into());
    agreed.valid.end = at(1, 1800);
    agreed.lent_milli = 250;
    let mut others = price("others", "8.00");
    others.applies.tenant = Some("vision".into());
    let mut list = price("list", "2.00");
    list.lent_milli = 0;
    let mut books = books(vec![agreed, others, list]);
    books.lend(loan("L-2", "GPU-0"), seconds(0, 3600));
    // A quarter of half a dollar; then nothing of a dollar.
    assert_eq!(
        charges(&books, "vision"),
        [Ok(usd("-0.125")), Ok(usd("0.00"))]
    );
    let mut none = books_without_a_price();
    none.lend(loan("L-2", "GPU-0"), seconds(0, 3600));
    assert_eq!(charges(&none, "vision"), [Err(Unpriced::NoPrice)]);
}

fn books_without_a_price() -> Books {
    let mut other = price("p", "2.00");
    other.applies.kind = Some("L4".into());
    books(vec![other])
}

#[test]
fn nobody_earns_more_than_is_paid() {
    let mut entry = price("p", "2.00");
    entry.lent_milli = 1001;
    let refused = PriceBook::new(vec![entry]);
    assert_eq!(refused, Err(BookError::Lent("p".into())));
}

#[test]
fn a_late_loan_of_a_closed_month_is_corrected_as_a_credit() {
    let mut books = books(vec![price("p", "2.00")]);
    books.lend(loan("L-2", "GPU-0"), seconds(0, 3600));
    books.close("2026-11".parse().unwrap());
    books.lend(loan("L-2", "GPU-0"), seconds(3600, 7200));
    let later = books.statement("vision", "2026-12".parse().unwrap());
    let charges: Vec<_> = later.lines.iter().map(|line| line.charge).collect();
    assert_eq!(charges, [Ok(usd("1.00")), Ok(usd("-2.00"))]);
    assert!(
        later
            .lines
            .iter()
            .all(|line| line.is_credit() && line.is_correction())
    );
}

#[test]
fn what_goes_on_is_in_the_live_statement_alone_and_what_is_forgotten_stays_stated() {
    let mut books = books(vec![price("p", "2.00")]);
    let november = "2026-11".parse().unwrap();
    let lending = [(loan("L-2", "GPU-0"), seconds(0, 1800))];
    let live = books.live_statement("vision", november, &[], &lending);
    assert_eq!(live.lines[0].charge, Ok(usd("-0.50")));
    assert_eq!(charges(&books, "vision"), []);
    books.lend(loan("L-2", "GPU-0"), seconds(0, 1800));
    books.close(november);
    assert!(books.forget("2026-12".parse().unwrap(), at(40, 0)));
    assert_eq!(books.lent().tenants().count(), 0);
    assert_eq!(charges(&books, "vision"), [Ok(usd("-0.50"))]);
}

#[test]
fn granted_lent_idle_and_the_systems_are_the_whole() {
    let mut books = books(vec![price("p", "2.00")]);
    // The holder until 600 s, a guest from 900 s until 3000 s: lent from when it was kept, 1200 s.
    taken(books.record(at(1, 3600), &record("own", at(1, 0), at(1, 600))));
    taken(books.record(at(1, 3600), &borrowed("guest", seconds(900, 3000))));
    books.lend(loan("L-1", "GPU-0"), seconds(1200, 3000));
    let mut present = Spans::default();
    present.insert(seconds(0, 3600));
    let device = Device {
        id: "GPU-0".into(),
        present,
        system: Part::NOTHING,
        standing: Vec::new(),
        lent: books.lent().of_device("GPU-0"),
    };
    let hours = balances(books.meter(), &device, seconds(0, 3600)).unwrap();
    let parts = hours[0].compute;
    let second = u128::from(SECOND);
    assert_eq!(
        [parts.granted, parts.lent, parts.idle(), parts.whole].map(|part| part / second),
        [900, 1800, 900, 3600]
    );
    assert!(parts.holds() && hours[0].memory.holds());
}

#[test]
fn a_credit_is_a_row_of_its_own_and_is_posted_beside_revenue() {
    let mut books = books(vec![price("p", "2.00")]);
    taken(books.record(at(1, 7200), &record("own", at(1, 0), at(1, 3600))));
    books.lend(loan("L-2", "GPU-1"), seconds(0, 3600));
    let statement = books.statement("vision", "2026-11".parse().unwrap());
    let rows = rows(&statement, &Account::of("Example Lab")).unwrap();
    let row = rows
        .iter()
        .find(|row| row.charge_category == "Credit")
        .unwrap();
    let shown = [
        row.billed_cost.to_string(),
        row.list_cost.to_string(),
        row.lent_hours.as_ref().unwrap().to_string(),
        row.lent_share.as_ref().unwrap().to_string(),
        row.resource_id.clone().unwrap(),
    ];
    assert_eq!(shown, ["-1", "-1", "1", "0.5", "L-2"]);
    assert_eq!(row.pricing_quantity, None);
    assert_eq!(
        row.charge_description,
        "Earned by capacity kept for lease L-2 and lent: 50 % of what was paid for H100, whole, spot"
    );
    let mut ledger = Ledger::default();
    let posted = of_statement(&statement, "s", at(30, 0)).unwrap();
    ledger.post(posted).unwrap();
    let balance = |account| ledger.balance(account, Currency::USD);
    assert_eq!(balance("lent:gpu-h100"), 1_000_000);
    assert_eq!(balance("revenue:gpu-h100"), -2_000_000);
    assert_eq!(balance("receivable:vision"), 1_000_000);
}
