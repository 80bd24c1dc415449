//! Statements as transactions.

use super::{Entry, Transaction};
use crate::statement::{Cause, Statement};
use gpuwise_units::{Currency, Money, Nanoseconds};
use std::collections::BTreeMap;

/// The account of what a tenant owes.
pub fn receivable(tenant: &str) -> String {
    format!("receivable:{tenant}")
}

/// What a statement comes to: the tenant owes the sum of its lines, each SKU earned its part, shared costs
/// are recovered, what lenders earned is given back. `None`: there is nothing to post.
pub fn of_statement(statement: &Statement, id: &str, at: Nanoseconds) -> Option<Transaction> {
    let mut earned: BTreeMap<(String, Currency), i128> = BTreeMap::new();
    for line in &statement.lines {
        let Ok(charge) = line.charge else {
            continue;
        };
        let price = line.item.as_ref().and_then(|item| item.price.as_ref());
        let account = match (&line.cause, price) {
            (Cause::Shared(name), _) => format!("recovered:{name}"),
            // What lenders earn is a cost of what borrowers are charged, and stands beside it.
            (_, Some(price)) if line.is_credit() => format!("lent:{}", price.sku),
            (_, Some(price)) => format!("revenue:{}", price.sku),
            (_, None) => "revenue:other".into(),
        };
        *earned.entry((account, charge.currency)).or_default() += i128::from(charge.micros);
    }
    let owed = receivable(&statement.tenant);
    let mut entries = Vec::new();
    for (currency, total) in statement.totals() {
        entries.extend(entry(&owed, currency, total.micros));
    }
    for ((account, currency), micros) in earned {
        entries.extend(entry(&account, currency, -micros));
    }
    (entries.len() >= 2).then(|| Transaction {
        id: id.into(),
        at,
        memo: format!("statement of {} for {}", statement.tenant, statement.month),
        entries,
        reverses: None,
    })
}

/// Amounts beyond 64 bits stand in as many entries as they need.
fn entry(account: &str, currency: Currency, mut micros: i128) -> Vec<Entry> {
    let mut entries = Vec::new();
    while micros != 0 {
        let part = micros.clamp(-i128::from(i64::MAX), i128::from(i64::MAX)) as i64;
        micros -= i128::from(part);
        entries.push(Entry {
            account: account.into(),
            amount: Money {
                micros: part,
                currency,
            },
        });
    }
    entries
}
