//! What a tenant is charged for a month: granted and used side by side.

mod build;
mod correct;
mod lent;
mod shared;
mod stated;
mod total;

pub(crate) use build::lines;
pub(crate) use lent::credits;
pub(crate) use shared::Parts;
pub use shared::{SharedBy, SharedCost, shares};
pub(crate) use stated::{Right, Stated};
pub use total::Total;

use crate::{
    books::Books,
    period::{Interval, Month},
    prices::Metered,
    usage::{Amounts, Granted, Quantity, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Currency, Fraction, Money};
use std::collections::BTreeMap;

/// A month of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Statement {
    pub tenant: String,
    pub month: Month,
    pub lines: Vec<Line>,
}

/// One charge. Its amount is rounded once, here, and never again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Line {
    pub cause: Cause,
    /// From the first moment charged to the last, within the month.
    pub interval: Interval,
    /// What it is for; `None`: a share of a cost, for nothing in particular.
    pub item: Option<Item>,
    /// By the price that this tenant pays.
    pub charge: Result<Money, Unpriced>,
    /// By the list price; `None`: there is none.
    pub list: Option<Money>,
}

/// What was sold.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Item {
    pub lease: String,
    pub kind: String,
    pub granted: Granted,
    pub isolation: Sharing,
    pub class: Terms,
    pub metered: Metered,
    /// Devices that the lease had parts of.
    pub devices: u32,
    /// The price's entry in the book; `None`: it has none.
    pub price: Option<PriceName>,
    /// The list price's entry.
    pub list: Option<PriceName>,
    /// Time for which it was held, in nanoseconds, summed over devices.
    pub granted_ns: u64,
    /// Time that minimum and steps of the price add to it.
    pub added_ns: u64,
    /// What is charged, in units of [`Metered::unit`]: GPU-hours, 10⁶ tokens, kWh.
    pub quantity: Fraction,
    /// What was used of it, whether it is charged or not.
    pub used: Amounts,
    /// It is a credit: the lease gave this up, others had it for `granted_ns`, and so many thousandths of what they
    /// pay for it are earned. `None`: it was sold.
    pub lent_milli: Option<u32>,
}

/// An entry of the price book, as lines keep it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PriceName {
    pub id: String,
    pub sku: String,
    /// The price of a unit: [`Metered::unit`].
    pub unit_price: Fraction,
    pub currency: Currency,
}

/// Why there is a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Cause {
    /// What was held and used, and what was lent.
    Usage,
    /// Takes back a line of a month that was stated before.
    Reversal(Month),
    /// Puts another in its place.
    Restated(Month),
    /// A part of a cost that is shared.
    Shared(String),
}

gpuwise_units::named! {
    /// What a statement is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
    pub enum Purpose:
        name
    {
        /// It shows what things cost; nobody owes it, and it is not posted.
        #[default]
        Showback = "showback",
        /// It is owed, and posted in the ledger.
        Chargeback = "chargeback",
    }
}

gpuwise_units::named! {
    /// Why a line has no amount.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum Unpriced:
        name,
        /// In a sentence.
        sentence
    {
        NoPrice = "no-price", "the price book has no price for this: add an entry, and it is charged",
        TooLarge = "too-large", "the amount is beyond 9 × 10¹² units of the currency",
    }
}

impl Item {
    /// What of the quantity was held or used itself, without what minimum and steps add.
    pub fn consumed(&self) -> Fraction {
        let held = i128::from(self.granted_ns);
        let share = Fraction::new(held, held + i128::from(self.added_ns));
        (share.and_then(|share| self.quantity.times(share))).unwrap_or(self.quantity)
    }

    /// The part of the granted time for which somebody measured what was used; the rest is charged by what
    /// was granted alone.
    pub fn measured_share(&self) -> Option<Fraction> {
        let measured = self.used.measured_ns.min(self.granted_ns);
        Fraction::new(i128::from(measured), i128::from(self.granted_ns))
    }

    /// The part of the granted compute that lay idle, of the time for which it was measured; `None`: it
    /// was not. Below 0 where more was used than granted, as time slices without a limit can.
    pub fn idle_share(&self) -> Option<Fraction> {
        let share = self.granted.compute();
        let used = i128::from(self.used.get(Quantity::SmTime)?);
        let granted = i128::from(self.used.measured_ns) * i128::from(share.part);
        let used = Fraction::new(used * i128::from(share.of), granted)?;
        Fraction::ONE.minus(used)
    }
}

impl Line {
    /// What its rounding kept back, exactly: what is charged and this are the price times the quantity, in
    /// µ-units. `None`: it has no amount, or one beyond what is computed with.
    pub fn rounding(&self) -> Option<Fraction> {
        let charge = Fraction::whole(self.charge.ok()?.micros);
        let Some(item) = &self.item else {
            // Parts of a shared cost sum to it.
            return Some(Fraction::ZERO);
        };
        let micros = item
            .price
            .as_ref()?
            .unit_price
            .times(Fraction::whole(1_000_000))?;
        item.quantity.times(micros)?.minus(charge)
    }

    /// Whether it is what lent capacity earned.
    pub fn is_credit(&self) -> bool {
        let item = self.item.as_ref();
        item.is_some_and(|item| item.lent_milli.is_some())
    }

    /// Whether it takes back or restates a month that was stated before.
    pub const fn is_correction(&self) -> bool {
        matches!(self.cause, Cause::Reversal(_) | Cause::Restated(_))
    }
}

/// What a lease comes to over a time that need not be a month, line by line.
pub fn of_lease(books: &Books, lease: &str, within: Interval) -> Vec<Line> {
    build::lines(books.prices(), books.meter().of_lease(lease), within)
}

impl Statement {
    /// What a tenant used in a month at the prices of the book as it is, and its part of shared costs;
    /// without corrections of other months, which [`Books::statement`] has.
    pub fn of(books: &Books, tenant: &str, month: Month) -> Self {
        Self::with(books, tenant, month, &Parts::of(books, [month]))
    }

    pub(crate) fn with(books: &Books, tenant: &str, month: Month, shared: &Parts) -> Self {
        let of = books.meter().of_tenant(tenant);
        let mut lines = build::lines(books.prices(), of, month.interval());
        lines.extend(credits(
            books.prices(),
            books.lent(),
            tenant,
            month.interval(),
        ));
        lines.extend(shared.lines(tenant, month));
        Self {
            tenant: tenant.into(),
            month,
            lines,
        }
    }

    /// Nothing.
    pub(crate) fn empty(tenant: &str, month: Month) -> Self {
        Self {
            tenant: tenant.into(),
            month,
            lines: Vec::new(),
        }
    }

    /// Sums by currency.
    pub fn totals(&self) -> BTreeMap<Currency, Total> {
        total::of(&self.lines)
    }

    /// Lines that have no amount.
    pub fn unpriced(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.charge.is_err())
    }
}
