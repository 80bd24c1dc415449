//! Sums of lines.

use super::{Cause, Line};
use crate::money::payable;
use gpuwise_units::{Currency, Money};
use std::collections::BTreeMap;

/// What lines of one currency come to, in µ-units: sums of what each line rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Total {
    pub micros: i128,
    /// Of it: what takes back and restates earlier months.
    pub corrections: i128,
    /// Of it: parts of shared costs.
    pub shared: i128,
    /// Of it, and below 0: what lent capacity earned, and its corrections.
    pub credits: i128,
    /// At list prices, of the lines that have one.
    pub list: i128,
}

impl Total {
    /// The sum as money; `None` beyond 64 bits.
    pub fn money(&self, currency: Currency) -> Option<Money> {
        let micros = i64::try_from(self.micros).ok()?;
        Some(Money { micros, currency })
    }

    /// What is due: to the currency's smallest unit. What the rounding adds stands beside the lines, in no
    /// line.
    pub fn payable(&self, currency: Currency) -> Option<Money> {
        self.money(currency).map(payable)
    }
}

pub(super) fn of(lines: &[Line]) -> BTreeMap<Currency, Total> {
    let mut totals: BTreeMap<Currency, Total> = BTreeMap::new();
    for line in lines {
        if let Ok(charge) = line.charge {
            let total = totals.entry(charge.currency).or_default();
            let micros = i128::from(charge.micros);
            total.micros += micros;
            if line.is_credit() {
                total.credits += micros;
            }
            match line.cause {
                Cause::Usage => {}
                Cause::Reversal(_) | Cause::Restated(_) => total.corrections += micros,
                Cause::Shared(_) => total.shared += micros,
            }
        }
        if let Some(list) = line.list {
            totals.entry(list.currency).or_default().list += i128::from(list.micros);
        }
    }
    totals
}
