//! Lines, worked by hand.

use crate::support::{SECOND, at, price, record, taken, usd};
use gpuwise_account::{
    books::Books,
    period::{HOUR, Interval},
    prices::{Basis, PriceBook, PriceEntry},
    statement::{Statement, Unpriced},
    usage::{Granted, Limits, Sharing},
};
use gpuwise_units::{Currency, Fraction, Nanoseconds};

fn statement(
    entries: Vec<PriceEntry>,
    records: &[gpuwise_account::usage::UsageRecord],
) -> Statement {
    let mut books = Books::new(Limits::default());
    books.set_prices(PriceBook::new(entries).unwrap());
    for record in records {
        taken(books.record(at(30, 0), record));
    }
    Statement::of(&books, "vision", "2026-11".parse().unwrap())
}

#[test]
fn a_change_within_an_hour_splits_it() {
    let mut old = price("old", "2.40");
    old.valid.end = at(1, 1800);
    let mut new = price("new", "3.00");
    new.valid.start = at(1, 1800);
    let stated = statement(vec![old, new], &[record("a", at(1, 0), at(1, 3600))]);
    let charges: Vec<_> = stated.lines.iter().map(|line| line.charge).collect();
    assert_eq!(charges, [Ok(usd("1.50")), Ok(usd("1.20"))]);
    assert_eq!(stated.totals()[&Currency::USD].micros, 2_700_000);
}

#[test]
fn what_rounding_keeps_back_is_said_exactly() {
    let stated = statement(
        vec![price("p", "2.00")],
        &[
            record("a", at(1, 0), at(1, 1)),
            record("b", at(2, 0), at(2, 1200)),
        ],
    );
    let line = &stated.lines[0];
    // 1,201 s × 2,000,000 / 3600 s = 667,222.2…, of which 667,222 are charged.
    assert_eq!(line.charge, Ok(usd("0.667222")));
    assert_eq!(line.rounding(), Fraction::new(2, 9));
}

#[test]
fn what_has_no_price_is_said_and_not_charged() {
    let mut expired = price("old", "2.40");
    expired.valid.end = at(1, 1800);
    let stated = statement(vec![expired], &[record("a", at(1, 0), at(1, 3600))]);
    let charges: Vec<_> = stated.lines.iter().map(|line| line.charge).collect();
    assert_eq!(charges, [Err(Unpriced::NoPrice), Ok(usd("1.20"))]);
    assert_eq!(stated.unpriced().count(), 1);
}

#[test]
fn minimum_and_steps_belong_to_the_sku() {
    let mut hourly = price("hourly", "2.00");
    hourly.granularity_ns = 60 * SECOND;
    hourly.minimum_ns = 600 * SECOND;
    let records = [
        // 61 s and 20 min 1 s, apart: charged as 10 and 21 minutes.
        record("a", at(1, 0), at(1, 61)),
        record("b", at(2, 0), at(2, 1201)),
        record("c", at(29, 0), at(29, 30)),
    ];
    let stated = statement(vec![hourly], &records);
    let item = stated.lines[0].item.as_ref().unwrap();
    assert_eq!(item.granted_ns, (61 + 1201 + 30) * SECOND);
    assert_eq!(item.added_ns, (539 + 59 + 570) * SECOND);
    assert_eq!(item.quantity.plain(6), "0.683333");
    assert_eq!(stated.lines[0].charge, Ok(usd("1.366667")));
}

#[test]
fn slices_are_charged_by_what_the_sku_says() {
    let mut part = record("a", at(1, 0), at(1, 3600));
    part.granted = Granted::Slice {
        profile: "1g.20gb".into(),
        compute: 1,
        of_compute: 7,
        memory: 2,
        of_memory: 8,
    };
    part.isolation = Sharing::Mig;
    for (basis, wanted) in [
        (Basis::Part, "7.00"),
        (Basis::Compute, "1.00"),
        (Basis::Memory, "1.75"),
        (Basis::Larger, "1.75"),
    ] {
        let mut entry = price("p", "7.00");
        entry.basis = basis;
        let stated = statement(vec![entry], std::slice::from_ref(&part));
        assert_eq!(stated.lines[0].charge, Ok(usd(wanted)), "{basis:?}");
    }
}

#[test]
fn an_agreed_price_stands_beside_the_list() {
    let mut agreed = price("agreed", "1.00");
    agreed.applies.tenant = Some("vision".into());
    agreed.valid = Interval::new(at(1, 0), Nanoseconds(at(1, 0).0 + HOUR));
    let stated = statement(
        vec![price("list", "2.00"), agreed],
        &[record("a", at(1, 0), at(1, 7200))],
    );
    let both: Vec<_> = stated
        .lines
        .iter()
        .map(|line| (line.charge, line.list))
        .collect();
    let (one, two) = (usd("1.00"), usd("2.00"));
    assert_eq!(both, [(Ok(one), Some(two)), (Ok(two), Some(two))]);
}

#[test]
fn prices_that_could_both_apply_are_refused() {
    let mut class = price("class", "1.00");
    class.applies.isolation = Some(Sharing::Mig);
    assert!(PriceBook::new(vec![price("a", "2.00"), class]).is_ok());
    let error = PriceBook::new(vec![price("a", "2.00"), price("b", "2.00")]).unwrap_err();
    assert!(error.to_string().contains("`a` and `b`"), "{error}");
}
