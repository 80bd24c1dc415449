//! Rows of FOCUS.
#![allow(
    clippy::float_cmp,
    reason = "products must be the very numbers that readers compute"
)]

use crate::{
    everything::{everything, month},
    support::{at, price, record, taken},
};
use gpuwise_account::{
    books::Books,
    focus::{Account, FocusError, Row, csv, rows},
    period::HOUR,
    prices::PriceBook,
    usage::Limits,
};
use gpuwise_units::Money;
use proptest::prelude::*;

fn column(row: &Row, name: &str) -> String {
    let place = Row::COLUMNS.iter().position(|column| *column == name);
    row.cells()[place.unwrap()].clone()
}

#[test]
fn rows_sum_to_the_statement() {
    let statement = everything().statement("vision", month());
    let rows = rows(&statement, &Account::of("Example Lab")).unwrap();
    assert_eq!(rows.len(), statement.lines.len());
    let mut sum = 0;
    for row in &rows {
        let cost = Money::from_decimal(&column(row, "BilledCost"), statement_currency()).unwrap();
        sum += i128::from(cost.micros);
    }
    assert_eq!(sum, statement.totals()[&statement_currency()].micros);
    let shown: Vec<String> = rows
        .iter()
        .map(|row| {
            [
                "ChargeCategory",
                "ChargeClass",
                "PricingQuantity",
                "BilledCost",
                "ListCost",
                "x_IdleShare",
            ]
            .map(|name| column(row, name))
            .join("|")
        })
        .collect();
    let wanted = [
        // 30 minutes at the list price, then the agreed one; 3,000 of 7,199 s were used.
        "Usage||0.5|1.245|1.245|0.583275",
        // The list cost is that of a quantity that gives the agreed one to the µ-unit.
        "Usage||1.4997220512820513|2.924458|3.734307907692308|0.583275",
    ];
    for wanted in wanted {
        assert!(
            shown.iter().any(|row| row == wanted),
            "{wanted} is not in\n{}",
            shown.join("\n")
        );
    }
    assert_eq!(
        shown
            .iter()
            .filter(|row| row.contains("Correction"))
            .count(),
        3
    );
    assert_eq!(
        shown
            .iter()
            .filter(|row| row.starts_with("Adjustment"))
            .count(),
        2,
        "{shown:#?}"
    );
}

fn statement_currency() -> gpuwise_units::Currency {
    "USD".parse().unwrap()
}

#[test]
fn credits_are_no_currency_of_focus() {
    let mut books = Books::new(Limits::default());
    let mut entry = price("p", "1");
    entry.amount.currency = gpuwise_account::money::credits();
    books.set_prices(PriceBook::new(vec![entry]).unwrap());
    taken(books.record(at(30, 0), &record("a", at(1, 0), at(1, 60))));
    let statement = books.statement("vision", "2026-11".parse().unwrap());
    let error = rows(&statement, &Account::of("Lab")).unwrap_err();
    assert!(matches!(error, FocusError::Currency(_)));
}

#[test]
fn a_file_has_a_row_for_each_line() {
    let statement = everything().statement("vision", month());
    let text = csv(&rows(&statement, &Account::of("A \"lab\", Ltd")).unwrap()).unwrap();
    assert_eq!(text.lines().count(), statement.lines.len() + 1);
    assert!(text.contains("\"A \"\"lab\"\", Ltd\""));
}

proptest! {
    /// What who reads the file in double precision multiplies.
    #[test]
    fn unit_prices_times_quantities_are_costs(
        cents in 1_i64..5_000,
        list in 1_i64..5_000,
        seconds in 1_u64..2_000_000,
    ) {
        let mut books = Books::new(Limits::default());
        let mut agreed = price("agreed", "1");
        agreed.amount.micros = cents * 10_000;
        agreed.applies.tenant = Some("vision".into());
        let mut listed = price("list", "1");
        listed.amount.micros = list * 10_000;
        (listed.per, agreed.per) = (HOUR, HOUR);
        books.set_prices(PriceBook::new(vec![agreed, listed]).unwrap());
        taken(books.record(at(30, 0), &record("a", at(1, 0), at(1, seconds))));
        let statement = books.statement("vision", "2026-11".parse().unwrap());
        let row = &rows(&statement, &Account::of("Lab")).unwrap()[0];
        let number = |name| column(row, name).parse::<f64>().unwrap();
        let quantity = number("PricingQuantity");
        prop_assert_eq!(number("ContractedUnitPrice") * quantity, number("ContractedCost"));
        prop_assert_eq!(number("ListUnitPrice") * quantity, number("ListCost"));
        prop_assert!((number("ContractedCost") - number("BilledCost")).abs() < 1e-9);
        prop_assert!((number("ConsumedQuantity") - quantity).abs() * number("ContractedUnitPrice") < 1e-6);
    }
}
