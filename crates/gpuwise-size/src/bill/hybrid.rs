//! Lines of a base that is owned and peaks that are rented.

use super::{
    BillError, Question,
    host::HostCost,
    lines::{Base, Totals},
    owned::{Paid, bought, hosts, paid},
    rented::Rent,
    sheet::{Book, FACTOR, LOAD, Line, Row, down, larger, one, smaller, whole},
};
use alloc::{boxed::Box, vec, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula, Strategy};
use gpuwise_units::Fraction;

type Outcome = Result<Totals, Vec<CostKey>>;

/// How the load of a month is spread over its hours: from its peak it falls evenly to its floor.
struct Spread {
    /// Share of hours within which it falls.
    time: Row,
    /// How far it falls, as a share of the peak.
    depth: Row,
}

/// Hosts to own of each month, and what that costs with peaks rented.
pub(super) fn hybrid(
    book: &mut Book,
    base: &Base,
    question: &Question,
    host: Result<&HostCost, &Vec<CostKey>>,
    rent: Option<&Rent>,
    break_even: Option<Row>,
) -> Result<(Option<Row>, Outcome), BillError> {
    let host = match host {
        Ok(host) => host,
        Err(missing) => return Ok((None, Err(missing.clone()))),
    };
    let (Some(rent), Some(break_even), Some(duty)) = (rent, break_even, base.input(CostKey::Duty))
    else {
        return Ok((None, Err(vec![CostKey::OnDemand])));
    };
    let spread = spread(book, duty)?;
    let own = own_share(book, &spread, break_even)?;
    let life = question.months(CostKey::Life)?;
    let lead = question.months(CostKey::Lead)?;
    let owned = book.series(
        &hosts(
            "base_hosts",
            "hosts to own as base",
            "share to own · hosts that bear the load, rounded down; never fewer than before; none arrive within the lead time",
        ),
        base.months,
        |month, row| {
            let worth = down(one(own) * Formula::Cell(base.needed, month));
            match month.checked_sub(1) {
                None => worth,
                Some(before) if month < lead => Formula::Cell(row, before),
                Some(before) => larger(Formula::Cell(row, before), worth),
            }
        },
    )?;
    let rented = rented(book, base, &spread, owned)?;
    let (bought, replaced) = bought(book, base, "base", life, |month| {
        let now = Formula::Cell(owned, month);
        match month.checked_sub(1) {
            None => now,
            Some(before) => now - Formula::Cell(owned, before),
        }
    })?;
    let bill = Paid {
        strategy: Strategy::Hybrid,
        bought,
        replaced,
        owned,
        rented: Some((rented, rent.hour)),
    };
    Ok((Some(owned), Ok(paid(book, base, host, &bill)?)))
}

fn spread(book: &mut Book, duty: Row) -> Result<Spread, BillError> {
    let time = book.line(
        &Line {
            key: "spread_time",
            what: "share of hours within which the load falls",
            unit: "share of hours",
            decimals: FACTOR,
            words: "2 · mean over peak load, at most 1",
        },
        smaller(whole(1), whole(2) * one(duty)),
    )?;
    let thousandth = Fraction::new(1, 1000).unwrap_or(Fraction::ONE);
    let depth = book.line(
        &Line {
            key: "spread_depth",
            what: "how far the load falls below its peak",
            unit: "share of the peak",
            decimals: FACTOR,
            words: "1 − the larger of 0 and (2 · mean over peak load − 1); at least 0.001",
        },
        larger(
            Formula::Number(thousandth),
            whole(1) - larger(whole(0), whole(2) * one(duty) - whole(1)),
        ),
    )?;
    Ok(Spread { time, depth })
}

/// The share of hosts that are used for more hours than the break-even.
fn own_share(book: &mut Book, spread: &Spread, break_even: Row) -> Result<Row, BillError> {
    book.line(
        &Line {
            key: "own_share",
            what: "share of hosts to own",
            unit: "share",
            decimals: FACTOR,
            words: "1 − break-even use · how far the load falls / share of hours within which it falls; 0 where the break-even use is above that share of hours",
        },
        Formula::IfAtMost(Box::new([
            one(break_even),
            one(spread.time),
            whole(1) - one(break_even) * one(spread.depth) / one(spread.time),
            whole(0),
        ])),
    )
}

/// Hosts that are rented, in the mean of the month's hours.
fn rented(book: &mut Book, base: &Base, spread: &Spread, owned: Row) -> Result<Row, BillError> {
    book.series(
        &Line {
            key: "rented_hosts",
            what: "hosts rented for peaks, in the mean",
            unit: "hosts",
            decimals: LOAD,
            words: "hosts · (hours within which the load falls · min(a, depth)² / (2 · depth) + max(0, a − depth)), a = 1 − hosts owned / hosts, depth = how far the load falls",
        },
        base.months,
        |month, _| {
            let needed = larger(whole(1), Formula::Cell(base.needed, month));
            let above = whole(1) - smaller(whole(1), Formula::Cell(owned, month) / needed.clone());
            let (time, depth) = (one(spread.time), one(spread.depth));
            let within = smaller(above.clone(), depth.clone());
            let falling = time * within.clone() * within / (whole(2) * depth.clone());
            needed * (falling + larger(whole(0), above - depth))
        },
    )
}
