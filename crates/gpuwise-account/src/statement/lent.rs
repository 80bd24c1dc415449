//! What lent capacity earned: a share of what its borrower pays, by the borrower's price.

use super::{Item, Line, PriceName, Unpriced, build::name};
use crate::{
    lent::{Lent, Loan},
    money::amount,
    period::Interval,
    prices::{LENT_WHOLE, Metered, PriceBook, PriceEntry},
    usage::{Amounts, Granted, Share, Sharing},
};
use gpuwise_domain::offer::Terms;
use gpuwise_units::{Fraction, Money};
use std::collections::{BTreeMap, BTreeSet};

/// What lines are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'b> {
    lease: &'b str,
    kind: &'b str,
    granted: &'b Granted,
    isolation: Sharing,
    class: Terms,
    price: Option<&'b str>,
}

/// What a line grows from.
struct Grown<'b> {
    price: Option<&'b PriceEntry>,
    interval: Interval,
    devices: BTreeSet<&'b str>,
    lent_ns: u64,
}

/// What a tenant's loans earned over a time, in lines.
pub(crate) fn credits<'b>(
    prices: &'b PriceBook,
    lent: &'b Lent,
    tenant: &str,
    within: Interval,
) -> Vec<Line> {
    let mut lines: BTreeMap<Key<'b>, Grown<'b>> = BTreeMap::new();
    for (loan, spans) in lent.of(tenant) {
        if spans.touching(within).next().is_none() {
            continue;
        }
        for piece in prices.pieces(&loan.asked(), Metered::GpuTime, within) {
            for span in spans.touching(piece.interval) {
                grow(&mut lines, loan, piece.price, span.within(piece.interval));
            }
        }
    }
    let each = lines.into_iter();
    each.map(|(key, grown)| line(&key, &grown)).collect()
}

fn grow<'b>(
    lines: &mut BTreeMap<Key<'b>, Grown<'b>>,
    loan: &'b Loan,
    price: Option<&'b PriceEntry>,
    time: Interval,
) {
    let key = Key {
        lease: &loan.lease,
        kind: &loan.kind,
        granted: &loan.granted,
        isolation: loan.isolation,
        class: loan.class,
        price: price.map(|entry| entry.id.as_str()),
    };
    let grown = lines.entry(key).or_insert_with(|| Grown {
        price,
        interval: time,
        devices: BTreeSet::new(),
        lent_ns: 0,
    });
    grown.interval.start = grown.interval.start.min(time.start);
    grown.interval.end = grown.interval.end.max(time.end);
    grown.devices.insert(&loan.device);
    grown.lent_ns = grown.lent_ns.saturating_add(time.length());
}

/// The amount and the quantity are below 0, so that the price times the quantity is what is charged here, too.
fn line(key: &Key<'_>, grown: &Grown<'_>) -> Line {
    let share = |entry: &PriceEntry| entry.share(key.granted);
    let of = grown.price.map_or(Share { part: 1, of: 1 }, share);
    let time = -i128::from(grown.lent_ns) * i128::from(of.part);
    let quantity = Fraction::new(
        time,
        i128::from(Metered::GpuTime.unit()) * i128::from(of.of),
    );
    Line {
        cause: super::Cause::Usage,
        interval: grown.interval,
        item: Some(Item {
            lease: key.lease.into(),
            kind: key.kind.into(),
            granted: key.granted.clone(),
            isolation: key.isolation,
            class: key.class,
            metered: Metered::GpuTime,
            devices: grown.devices.len() as u32,
            price: grown.price.map(earned),
            list: None,
            granted_ns: grown.lent_ns,
            added_ns: 0,
            quantity: quantity.unwrap_or(Fraction::ZERO),
            used: Amounts::default(),
            lent_milli: Some(grown.price.map_or(0, |entry| entry.lent_milli)),
        }),
        charge: charge(grown.price, time, of),
        list: None,
    }
}

fn charge(price: Option<&PriceEntry>, time: i128, of: Share) -> Result<Money, Unpriced> {
    let entry = price.ok_or(Unpriced::NoPrice)?;
    let product = time.checked_mul(i128::from(entry.lent_milli));
    let per = i128::from(entry.per) * i128::from(of.of) * i128::from(LENT_WHOLE);
    let charged = product.and_then(|product| amount(entry.amount, product, per));
    charged.ok_or(Unpriced::TooLarge)
}

/// The borrower's price, of which the share is earned.
fn earned(entry: &PriceEntry) -> PriceName {
    let own = name(entry, Metered::GpuTime);
    let share = Fraction::new(i128::from(entry.lent_milli), i128::from(LENT_WHOLE));
    let unit_price = share.and_then(|share| own.unit_price.times(share));
    PriceName {
        unit_price: unit_price.unwrap_or(Fraction::ZERO),
        ..own
    }
}
