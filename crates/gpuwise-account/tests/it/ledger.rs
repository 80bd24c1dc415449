//! Double entry.

use crate::support::{at, price, record, taken, usd};
use gpuwise_account::{
    books::Books,
    ledger::{Entry, Ledger, LedgerError, Transaction, of_statement, receivable},
    prices::PriceBook,
    statement::Statement,
    usage::Limits,
};
use gpuwise_units::Currency;

fn transaction(id: &str, entries: &[(&str, &str)]) -> Transaction {
    Transaction {
        id: id.into(),
        at: at(1, 0),
        memo: String::new(),
        entries: (entries.iter())
            .map(|(account, amount)| Entry {
                account: (*account).into(),
                amount: amount.parse().unwrap(),
            })
            .collect(),
        reverses: None,
    }
}

#[test]
fn what_does_not_balance_is_not_posted() {
    let mut ledger = Ledger::default();
    let wrong = [
        transaction("a", &[("x", "1.00USD")]),
        transaction("b", &[("x", "1.00USD"), ("y", "-0.999999USD")]),
        transaction("c", &[("x", "1.00USD"), ("y", "-1.00EUR")]),
    ];
    for wrong in wrong {
        assert!(ledger.post(wrong).is_err());
    }
    assert!(ledger.transactions().is_empty() && ledger.balances().next().is_none());
    let right = [
        ("x", "1.00USD"),
        ("y", "-0.40USD"),
        ("z", "-0.60USD"),
        ("x", "3JPY"),
        ("y", "-3JPY"),
    ];
    ledger.post(transaction("d", &right)).unwrap();
    assert_eq!(ledger.balance("y", Currency::USD), -400_000);
    let twice = ledger.post(transaction("d", &right));
    assert_eq!(twice, Err(LedgerError::Twice("d".into())));
    ledger.check().unwrap();
}

#[test]
fn a_correction_reverses_and_enters_again() {
    let mut ledger = Ledger::default();
    ledger
        .post(transaction("a", &[("x", "5USD"), ("y", "-5USD")]))
        .unwrap();
    let unbalanced = transaction("b", &[("x", "4USD"), ("y", "-5USD")]);
    assert!(ledger.correct("a", "a-back", unbalanced).is_err());
    assert_eq!(ledger.transactions().len(), 1, "neither of both is posted");
    let right = transaction("b", &[("x", "4USD"), ("y", "-4USD")]);
    ledger.correct("a", "a-back", right).unwrap();
    assert_eq!(ledger.balance("x", Currency::USD), 4_000_000);
    let again = transaction("c", &[("x", "3USD"), ("y", "-3USD")]);
    let error = ledger.correct("a", "a-back-2", again).unwrap_err();
    assert!(matches!(error, LedgerError::TakenBack { .. }), "{error}");
    let mut part = transaction("d", &[("x", "-1USD"), ("y", "1USD")]);
    part.reverses = Some("b".into());
    assert!(matches!(
        ledger.post(part),
        Err(LedgerError::NotOpposite { .. })
    ));
    ledger.check().unwrap();
}

#[test]
fn a_statement_is_posted() {
    let mut books = Books::new(Limits::default());
    books.set_prices(PriceBook::new(vec![price("p", "2.00")]).unwrap());
    taken(books.record(at(30, 0), &record("a", at(1, 0), at(1, 1801))));
    let statement = Statement::of(&books, "vision", "2026-11".parse().unwrap());
    let mut ledger = Ledger::default();
    ledger
        .post(of_statement(&statement, "2026-11/vision", at(34, 0)).unwrap())
        .unwrap();
    assert_eq!(
        ledger.balance(&receivable("vision"), Currency::USD),
        1_000_556
    );
    assert_eq!(
        ledger.balance("revenue:gpu-h100", Currency::USD),
        -1_000_556
    );
    assert_eq!(usd("1.000556").micros, 1_000_556);
}
