//! Lines of hosts that are rented.

use super::{
    BillError,
    hybrid::{Spread, in_use},
    lines::{Base, Totals},
    sheet::{Line, MONEY, Row, SheetBuilder, one, whole},
};
use alloc::{format, vec, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula, Strategy};

/// What renting on demand costs.
pub(super) struct Rent {
    /// A host's hour, over the horizon.
    pub(super) hour: Row,
}

type Outcomes = Vec<(Strategy, Result<Totals, Vec<CostKey>>)>;

/// Every strategy that only rents.
pub(super) fn rented(
    book: &mut SheetBuilder,
    base: &Base,
    spread: Option<&Spread>,
    outcomes: &mut Outcomes,
) -> Result<Option<Rent>, BillError> {
    let rent = match base.inputs([CostKey::OnDemand]) {
        Err(missing) => {
            outcomes.push((Strategy::OnDemand, Err(missing.clone())));
            outcomes.push((Strategy::Following, Err(missing)));
            None
        }
        Ok([price]) => {
            let hour = hour(book, base, price)?;
            let total = all_hours(
                book,
                base,
                Strategy::OnDemand,
                "hosts · hours · rent",
                &one(hour),
            )?;
            outcomes.push((Strategy::OnDemand, Ok(total)));
            outcomes.push((Strategy::Following, following(book, base, hour, spread)?));
            Some(Rent { hour })
        }
    };
    let reserved = match base.inputs([CostKey::Reserved]) {
        Err(missing) => Err(missing),
        Ok([price]) => {
            let words = "hosts · hours · price reserved";
            Ok(all_hours(
                book,
                base,
                Strategy::Reserved,
                words,
                &one(price),
            )?)
        }
    };
    outcomes.push((Strategy::Reserved, reserved));
    let spot = match base.inputs([CostKey::Spot, CostKey::Interruption]) {
        Err(missing) => Err(missing),
        Ok([price, lost]) => {
            let factor = base
                .input(CostKey::RentFactor)
                .map_or_else(|| whole(1), one);
            let price = one(price) * factor * (whole(1) + one(lost));
            let words = "hosts · hours · price as spot · rent over the horizon, over today's · (1 + hours lost to interruption)";
            Ok(all_hours(book, base, Strategy::Spot, words, &price)?)
        }
    };
    outcomes.push((Strategy::Spot, spot));
    Ok(rent)
}

fn hour(book: &mut SheetBuilder, base: &Base, price: Row) -> Result<Row, BillError> {
    let factor = base
        .input(CostKey::RentFactor)
        .map_or_else(|| whole(1), one);
    let unit = format!("{} per host-hour", book.currency);
    book.line(
        &Line {
            key: "rent",
            what: "rent of a host, over the horizon",
            unit: &unit,
            decimals: MONEY,
            words: "price on demand · rent over the horizon, over today's",
        },
        one(price) * factor,
    )
}

/// Hosts of each month for all of its hours.
fn all_hours(
    book: &mut SheetBuilder,
    base: &Base,
    strategy: Strategy,
    words: &str,
    price: &Formula,
) -> Result<Totals, BillError> {
    let currency = book.currency;
    let line = Line {
        key: &format!("{}_months", strategy.key()),
        what: strategy.name(),
        unit: currency.code(),
        decimals: MONEY,
        words,
    };
    let monthly = book.series(&line, base.months, |month, _| {
        Formula::Cell(base.needed, month) * one(base.hours) * price.clone()
    })?;
    totals(book, base, strategy, monthly, None)
}

/// As many hosts as the load of the hour takes, at best.
fn following(
    book: &mut SheetBuilder,
    base: &Base,
    hour: Row,
    spread: Option<&Spread>,
) -> Result<Result<Totals, Vec<CostKey>>, BillError> {
    let Some(spread) = spread else {
        return Ok(Err(vec![CostKey::Duty]));
    };
    let hosts = in_use(book, base, spread, None)?;
    let currency = book.currency;
    let line = Line {
        key: "following_months",
        what: Strategy::Following.name(),
        unit: currency.code(),
        decimals: MONEY,
        words: "hosts in use, in the mean · hours · rent",
    };
    let monthly = book.series(&line, base.months, |month, _| {
        Formula::Cell(hosts, month) * one(base.hours) * one(hour)
    })?;
    totals(book, base, Strategy::Following, monthly, None).map(Ok)
}

/// The sum of a strategy's months, plain and discounted, less what is still worth something.
pub(super) fn totals(
    book: &mut SheetBuilder,
    base: &Base,
    strategy: Strategy,
    monthly: Row,
    worth: Option<Row>,
) -> Result<Totals, BillError> {
    let currency = book.currency;
    let months = base.months;
    let (key, what) = (
        format!("{}_total", strategy.key()),
        format!("{}: total", strategy.name()),
    );
    let line = |key, what, words| Line {
        key,
        what,
        unit: currency.code(),
        decimals: MONEY,
        words,
    };
    let left = |formula: Formula, at_end: Formula| match worth {
        Some(worth) => formula - Formula::Total(worth, months) * at_end,
        None => formula,
    };
    let (plain, discounted_words) = match worth {
        Some(_) => (
            "all months added up, less the residual value of hosts",
            "each month · its discount factor, added up, less the residual value of hosts · the discount factor of the end",
        ),
        None => (
            "all months added up",
            "each month · its discount factor, added up",
        ),
    };
    let total = book.line(
        &line(&key, &what, plain),
        left(Formula::Total(monthly, months), whole(1)),
    )?;
    let (key, what) = (
        format!("{}_discounted", strategy.key()),
        format!("{}: discounted", strategy.name()),
    );
    let discounted = book.line(
        &line(&key, &what, discounted_words),
        left(
            Formula::TotalProduct(monthly, base.discount, months),
            Formula::Cell(base.discount, months),
        ),
    )?;
    Ok(Totals {
        total,
        discounted,
        per_unit: Vec::new(),
    })
}
