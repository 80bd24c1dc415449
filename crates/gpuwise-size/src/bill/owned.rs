//! Lines of hosts that are bought.

use super::{
    BillError, Question,
    host::HostCost,
    lines::{Base, Totals},
    rented::{Rent, totals},
    sheet::{Line, MONEY, Row, SheetBuilder, count, larger, one, whole},
};
use alloc::{format, vec, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula, Strategy};
use gpuwise_units::Fraction;

/// Hosts bought by the calendar.
pub(super) struct Purchases {
    pub(super) arriving: Row,
    pub(super) owned: Row,
    pub(super) replaced: Row,
    pub(super) short: Row,
}

type Outcome = Result<Totals, Vec<CostKey>>;

/// Hosts as they are bought for growth, and what that costs.
pub(super) fn calendar(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
    host: Result<&HostCost, &Vec<CostKey>>,
    rent: Option<&Rent>,
) -> Result<(Option<Purchases>, Outcome), BillError> {
    let (arriving, owned) = arrivals(book, base, question)?;
    let short = short(book, base, "short", owned)?;
    let life = question.months(CostKey::Life)?;
    let (bought, replaced) = bought(book, base, "owned", life, |month| {
        let first = (month == 0).then(|| one(base.hosts_now));
        let growth = Formula::Cell(arriving, month);
        first.map_or_else(|| growth.clone(), |first| first + growth.clone())
    })?;
    let purchases = Purchases {
        arriving,
        owned,
        replaced,
        short,
    };
    let host = match host {
        Ok(host) => host,
        Err(missing) => return Ok((Some(purchases), Err(missing.clone()))),
    };
    let any_short = is_short(book, base, short);
    if any_short && rent.is_none() {
        return Ok((Some(purchases), Err(vec![CostKey::OnDemand])));
    }
    let bill = Paid {
        strategy: Strategy::Owned,
        bought,
        replaced,
        owned,
        rented: rent.filter(|_| any_short).map(|rent| (short, rent.hour)),
    };
    let totals = paid(book, base, host, &bill)?;
    Ok((Some(purchases), Ok(totals)))
}

/// Orders arrive every review from the lead time on, and last until the next ones do.
fn arrivals(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
) -> Result<(Row, Row), BillError> {
    let lead = question.months(CostKey::Lead)?;
    let review = question.months(CostKey::Review)?.max(1);
    // Arrivals need what is owned before them and the other way round: what arrived is added up.
    let arriving = book.series(
        &hosts(
            "arriving",
            "hosts that arrive for growth",
            "in months of delivery: hosts with margin for the months until the next delivery less all that are there, at least 0",
        ),
        base.months,
        |month, own| {
            let due = month
                .checked_sub(lead)
                .is_some_and(|since| since % review == 0);
            if !due {
                return whole(0);
            }
            let until = (month + review).min(base.months);
            let there = match month {
                0 => one(base.hosts_now),
                _ => one(base.hosts_now) + Formula::Total(own, month),
            };
            larger(whole(0), Formula::Largest(base.target, month, until) - there)
        },
    )?;
    let owned = book.series(
        &hosts(
            "owned_hosts",
            "hosts that are owned",
            "hosts today + all that arrived for growth",
        ),
        base.months,
        |month, _| one(base.hosts_now) + Formula::Total(arriving, month + 1),
    )?;
    Ok((arriving, owned))
}

/// Everything bought at once for the horizon; what is not there yet is there after the lead time, and rented until then.
pub(super) fn at_once(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
    host: Result<&HostCost, &Vec<CostKey>>,
    rent: Option<&Rent>,
) -> Result<Outcome, BillError> {
    let host = match host {
        Ok(host) => host,
        Err(missing) => return Ok(Err(missing.clone())),
    };
    let life = question.months(CostKey::Life)?;
    let lead = question.months(CostKey::Lead)?;
    let all = book.series(
        &hosts(
            "at_once_hosts",
            "hosts that are owned, all bought now",
            "hosts today within the lead time; then the most that any month takes, with the forecast's margin",
        ),
        base.months,
        |month, _| {
            if month < lead {
                return one(base.hosts_now);
            }
            larger(
                one(base.hosts_now),
                Formula::Largest(base.target, 0, base.months),
            )
        },
    )?;
    let short = short(book, base, "at_once_short", all)?;
    let (bought, replaced) = bought(book, base, "at_once", life, |month| match month {
        0 => Formula::Cell(all, 0),
        arrival if arrival == lead => Formula::Cell(all, lead) - one(base.hosts_now),
        _ => whole(0),
    })?;
    let any_short = is_short(book, base, short);
    if any_short && rent.is_none() {
        return Ok(Err(vec![CostKey::OnDemand]));
    }
    let bill = Paid {
        strategy: Strategy::OwnedAtOnce,
        bought,
        replaced,
        owned: all,
        rented: rent.filter(|_| any_short).map(|rent| (short, rent.hour)),
    };
    paid(book, base, host, &bill).map(Ok)
}

/// Hosts of each month's load that are not owned yet.
fn short(book: &mut SheetBuilder, base: &Base, key: &str, owned: Row) -> Result<Row, BillError> {
    book.series(
        &hosts(
            key,
            "hosts that are short",
            "hosts that carry the load less those in service, at least 0",
        ),
        base.months,
        |month, _| {
            larger(
                whole(0),
                Formula::Cell(base.needed, month) - Formula::Cell(owned, month),
            )
        },
    )
}

fn is_short(book: &SheetBuilder, base: &Base, short: Row) -> bool {
    (0..base.months).any(|month| book.at(short, month) > Some(Fraction::ZERO))
}

/// Hosts bought in each month: for growth, and for those whose life ended.
pub(super) fn bought(
    book: &mut SheetBuilder,
    base: &Base,
    key: &str,
    life: usize,
    growth: impl Fn(usize) -> Formula,
) -> Result<(Row, Row), BillError> {
    let (bought_key, replaced_key) = (format!("{key}_bought"), format!("{key}_replaced"));
    let bought = book.series(
        &hosts(
            &bought_key,
            "hosts bought",
            "for growth, and in place of those whose life ended",
        ),
        base.months,
        |month, own| match month.checked_sub(life).filter(|_| life > 0) {
            Some(then) => growth(month) + Formula::Cell(own, then),
            None => growth(month),
        },
    )?;
    let replaced = book.series(
        &hosts(
            &replaced_key,
            "hosts replaced",
            "those that were bought a life before",
        ),
        base.months,
        |month, _| match month.checked_sub(life).filter(|_| life > 0) {
            Some(then) => Formula::Cell(bought, then),
            None => whole(0),
        },
    )?;
    Ok((bought, replaced))
}

/// What a strategy that buys pays for.
pub(super) struct Paid {
    pub(super) strategy: Strategy,
    pub(super) bought: Row,
    pub(super) replaced: Row,
    pub(super) owned: Row,
    /// Hosts rented in the mean of a month, and the rent of an hour.
    pub(super) rented: Option<(Row, Row)>,
}

/// Its months, what is left at the end, and its totals.
pub(super) fn paid(
    book: &mut SheetBuilder,
    base: &Base,
    host: &HostCost,
    bill: &Paid,
) -> Result<Totals, BillError> {
    let currency = book.currency;
    let words = match bill.rented {
        Some(_) => {
            "hosts bought · price − hosts replaced · price · residual value + hosts owned · running + hosts rented · hours · rent"
        }
        None => {
            "hosts bought · price − hosts replaced · price · residual value + hosts owned · running"
        }
    };
    let monthly = book.series(
        &Line {
            key: &format!("{}_months", bill.strategy.key()),
            what: bill.strategy.name(),
            unit: currency.code(),
            decimals: MONEY,
            words,
        },
        base.months,
        |month, _| {
            let cell = |row| Formula::Cell(row, month);
            let owned = cell(bill.bought) * one(host.capital)
                - cell(bill.replaced) * one(host.capital) * one(host.residual)
                + cell(bill.owned) * one(host.running);
            match bill.rented {
                Some((hosts, hour)) => owned + cell(hosts) * one(base.hours) * one(hour),
                None => owned,
            }
        },
    )?;
    let worth = worth(book, base, host, bill)?;
    totals(book, base, bill.strategy, monthly, Some(worth))
}

/// What hosts bought in each month are worth at the end: their price falls evenly to the residual
/// value over their life.
fn worth(
    book: &mut SheetBuilder,
    base: &Base,
    host: &HostCost,
    bill: &Paid,
) -> Result<Row, BillError> {
    let currency = book.currency;
    let key = format!("{}_worth", bill.strategy.key());
    let what = format!("{}: worth at the end", bill.strategy.name());
    book.series(
        &Line {
            key: &key,
            what: &what,
            unit: currency.code(),
            decimals: MONEY,
            words: "hosts bought · price · (residual value + (1 − residual value) · months of life left / months of life); 0 where they were replaced",
        },
        base.months,
        |month, _| {
            let age = base.months - month;
            if age > host.life {
                return whole(0);
            }
            let left = count(host.life - age) / count(host.life);
            let residual = one(host.residual);
            let share = residual.clone() + (whole(1) - residual) * left;
            Formula::Cell(bill.bought, month) * one(host.capital) * share
        },
    )
}

pub(super) fn hosts<'a>(key: &'a str, what: &'a str, words: &'a str) -> Line<'a> {
    Line {
        key,
        what,
        unit: "hosts",
        decimals: 0,
        words,
    }
}
