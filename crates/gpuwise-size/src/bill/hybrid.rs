//! Lines of a base that is owned and peaks that are rented.

use super::{
    BillError, Question,
    host::HostCost,
    lines::{Base, Totals},
    owned::{Paid, bought, hosts, paid},
    rented::Rent,
    sheet::{FACTOR, LOAD, Line, Row, SheetBuilder, down, larger, one, smaller, up, whole},
};
use alloc::{boxed::Box, vec, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula, Strategy};
use gpuwise_units::Fraction;

type Outcome = Result<Totals, Vec<CostKey>>;

/// How the load of a month is spread over its hours: from its peak it falls evenly to its floor.
pub(super) struct Spread {
    /// Share of hours within which it falls.
    time: Row,
    /// How far it falls, as a share of the peak.
    depth: Row,
}

/// Hosts to own of each month, and what that costs with peaks rented.
pub(super) fn hybrid(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
    host: Result<&HostCost, &Vec<CostKey>>,
    rent: Option<&Rent>,
    break_even: Option<Row>,
    spread: Option<&Spread>,
) -> Result<(Option<Row>, Outcome), BillError> {
    let host = match host {
        Ok(host) => host,
        Err(missing) => return Ok((None, Err(missing.clone()))),
    };
    let (Some(rent), Some(break_even), Some(spread)) = (rent, break_even, spread) else {
        return Ok((None, Err(vec![CostKey::OnDemand])));
    };
    let own = own_share(book, spread, break_even)?;
    let life = question.months(CostKey::Life)?;
    let lead = question.months(CostKey::Lead)?;
    let owned = book.series(
        &hosts(
            "base_hosts",
            "hosts to own as base",
            "level up to which hosts are owned · hosts that carry the load, rounded down, and the one above; none where the break-even use is above the share of hours within which the load falls; never fewer than before; none arrive within the lead time",
        ),
        base.months,
        |month, row| {
            let needed = Formula::Cell(base.needed, month);
            let used = smaller(needed.clone(), down(one(own) * needed) + whole(1));
            let worth = Formula::IfAtMost(Box::new([
                one(break_even),
                one(spread.time),
                used,
                whole(0),
            ]));
            match month.checked_sub(1) {
                None => worth,
                Some(before) if month < lead => Formula::Cell(row, before),
                Some(before) => larger(Formula::Cell(row, before), worth),
            }
        },
    )?;
    let rented = in_use(book, base, spread, Some(owned))?;
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

pub(super) fn spread(book: &mut SheetBuilder, duty: Row) -> Result<Spread, BillError> {
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

/// The level of the fleet up to which hosts are used for more hours than the break-even.
fn own_share(book: &mut SheetBuilder, spread: &Spread, break_even: Row) -> Result<Row, BillError> {
    book.line(
        &Line {
            key: "own_share",
            what: "level up to which hosts are owned",
            unit: "share",
            decimals: FACTOR,
            words: "1 − break-even use · how far the load falls / share of hours within which it falls",
        },
        whole(1) - one(break_even) * one(spread.depth) / one(spread.time),
    )
}

/// Hosts in use beyond those that are owned, in the mean of each month's hours: the k-th host is in use
/// while the load is above (k − 1) / hosts of its peak.
pub(super) fn in_use(
    book: &mut SheetBuilder,
    base: &Base,
    spread: &Spread,
    owned: Option<Row>,
) -> Result<Row, BillError> {
    let (key, what) = match owned {
        Some(_) => ("rented_hosts", "hosts rented for peaks, in the mean"),
        None => ("following_hosts", "hosts in use, in the mean"),
    };
    book.series(
        &Line {
            key,
            what,
            unit: "hosts",
            decimals: LOAD,
            words: "max(0, always − owned) + hours within which the load falls · n · (n + 1) / (2 · hosts · how far it falls), always = (1 − how far it falls) · hosts, rounded up, n = hosts − the larger of always and owned, at least 0",
        },
        base.months,
        |month, _| {
            let hosts = larger(whole(1), Formula::Cell(base.needed, month));
            let always = up((whole(1) - one(spread.depth)) * hosts.clone());
            let owned = owned.map_or_else(|| whole(0), |row| Formula::Cell(row, month));
            let first = larger(always.clone(), owned.clone());
            let falling = larger(whole(0), hosts.clone() - first);
            let part = one(spread.time) * falling.clone() * (falling + whole(1))
                / (whole(2) * hosts * one(spread.depth));
            larger(whole(0), always - owned) + part
        },
    )
}
