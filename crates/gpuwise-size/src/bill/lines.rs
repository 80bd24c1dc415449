//! All lines of a bill in order.

use super::{
    BillError, Question,
    host::{HostCost, host_cost},
    hybrid::{hybrid, spread},
    owned::{Purchases, at_once, calendar},
    rented::{Rent, rented},
    sheet::{FACTOR, LOAD, Line, MONEY, Row, SheetBuilder, larger, one, up, whole},
};
use alloc::{format, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula, Strategy, UnitShare};
use gpuwise_units::Fraction;

/// Rows that everything else refers to.
pub(super) struct Base {
    pub(super) months: usize,
    pub(super) hours: Row,
    pub(super) discount: Row,
    pub(super) hosts_now: Row,
    pub(super) needed: Row,
    /// Hosts that bear the load and what the forecast may be wrong by.
    pub(super) target: Row,
    pub(super) load: Row,
    inputs: Vec<(CostKey, Row)>,
}

impl Base {
    /// The row of an assumption, where it is known.
    pub(super) fn input(&self, key: CostKey) -> Option<Row> {
        let found = self.inputs.iter().find(|(known, _)| *known == key);
        found.map(|(_, row)| *row)
    }

    /// Rows of assumptions; those that are missing, where any is.
    pub(super) fn inputs<const N: usize>(
        &self,
        keys: [CostKey; N],
    ) -> Result<[Row; N], Vec<CostKey>> {
        let missing: Vec<CostKey> = keys
            .into_iter()
            .filter(|key| self.input(*key).is_none())
            .collect();
        if missing.is_empty() {
            Ok(keys.map(|key| self.input(key).unwrap_or_default()))
        } else {
            Err(missing)
        }
    }
}

/// Total and discounted total of a strategy, and its price of each unit.
pub(super) struct Totals {
    pub(super) total: Row,
    pub(super) discounted: Row,
    pub(super) per_unit: Vec<Row>,
}

/// The sheet and where its figures are.
pub(super) struct Lines {
    pub(super) book: SheetBuilder,
    pub(super) base: Base,
    pub(super) strategies: Vec<(Strategy, Result<Totals, Vec<CostKey>>)>,
    pub(super) host: Option<HostCost>,
    pub(super) break_even: Option<Row>,
    pub(super) purchases: Option<Purchases>,
    pub(super) owned_base: Option<Row>,
    pub(super) energy: Option<Row>,
    pub(super) carbon: Option<Row>,
}

pub(super) fn lines(question: &Question) -> Result<Lines, BillError> {
    let mut book = SheetBuilder::new(question.currency);
    let base = base(&mut book, question)?;
    let mut strategies = Vec::new();
    let spread = (base.input(CostKey::Duty))
        .map(|duty| spread(&mut book, duty))
        .transpose()?;
    let rent = rented(&mut book, &base, spread.as_ref(), &mut strategies)?;
    let host = host_cost(&mut book, &base, question)?;
    let break_even = break_even(&mut book, &base, host.as_ref().ok(), rent.as_ref())?;
    let purchases = calendar(&mut book, &base, question, host.as_ref(), rent.as_ref())?;
    let (purchases, outcome) = purchases;
    strategies.push((Strategy::Owned, outcome));
    let once = at_once(&mut book, &base, question, host.as_ref(), rent.as_ref())?;
    strategies.push((Strategy::OwnedAtOnce, once));
    let (owned_base, outcome) = hybrid(
        &mut book,
        &base,
        question,
        host.as_ref(),
        rent.as_ref(),
        break_even,
        spread.as_ref(),
    )?;
    strategies.push((Strategy::Hybrid, outcome));
    units(&mut book, &base, question, &mut strategies)?;
    let (energy, carbon) = footprint(&mut book, &base)?;
    strategies.sort_by_key(|(strategy, _)| *strategy);
    Ok(Lines {
        book,
        base,
        strategies,
        host: host.ok(),
        break_even,
        purchases,
        owned_base,
        energy,
        carbon,
    })
}

fn base(book: &mut SheetBuilder, question: &Question) -> Result<Base, BillError> {
    let mut inputs = Vec::new();
    for key in CostKey::ALL {
        if let Some(input) = question.input(key) {
            inputs.push((key, book.assumption(input)));
        }
    }
    let row = |wanted: CostKey| {
        let found = inputs.iter().find(|(key, _)| *key == wanted);
        found.map(|(_, row)| *row)
    };
    let mut fact = |key, what, unit, words, value: i64| {
        let line = Line {
            key,
            what,
            unit,
            decimals: 0,
            words,
        };
        book.given(&line, &[Fraction::whole(value)], false)
    };
    let hours = fact(
        "hours",
        "hours of a month",
        "h",
        "8,760 hours of a year, over 12",
        730,
    );
    let hosts_now = fact(
        "hosts_now",
        "hosts today",
        "hosts",
        "the deployment",
        question.hosts_now.into(),
    );
    let step = fact(
        "step",
        "hosts added at a time",
        "hosts",
        "hosts of one replica",
        question.step.into(),
    );
    let discount = discounts(book, question, row(CostKey::Rate))?;
    let load = load(book, question, row(CostKey::Growth))?;
    let one_host = row(CostKey::Capacity).map_or_else(|| whole(1), one);
    // A load that is not said to grow has no forecast that could be wrong.
    let grows = question.load.len() > 1 || row(CostKey::Growth).is_some();
    let forecast = (row(CostKey::Safety), row(CostKey::Spread));
    let margin = match Some(forecast).filter(|_| grows).unwrap_or_default() {
        (Some(safety), Some(spread)) => whole(1) + one(safety) * one(spread),
        _ => whole(1),
    };
    let sustains = one_host * one(step);
    let (needed, target) = hosts(book, question, [load, step], &sustains, &margin)?;
    Ok(Base {
        months: question.horizon as usize,
        hours,
        discount,
        hosts_now,
        needed,
        target,
        load,
        inputs,
    })
}

/// Hosts that bear the load of each month, without and with the forecast's margin.
fn hosts(
    book: &mut SheetBuilder,
    question: &Question,
    [load, step]: [Row; 2],
    sustains: &Formula,
    margin: &Formula,
) -> Result<(Row, Row), BillError> {
    let months = question.horizon as usize;
    let line = |key, what, words| Line {
        key,
        what,
        unit: "hosts",
        decimals: 0,
        words,
    };
    let extra = book.line(
        &line(
            "extra",
            "hosts beyond the load",
            "hosts that it was sized with less those that the load of the first month takes, at least 0",
        ),
        larger(
            whole(0),
            whole(question.sized_with.into()) - one(step) * up(Formula::Cell(load, 0) / sustains.clone()),
        ),
    )?;
    let needed = book.series(
        &line(
            "needed",
            "hosts that carry the load",
            "hosts beyond the load + step · load / (load a host sustains · step), rounded up",
        ),
        months,
        |month, _| one(extra) + one(step) * up(Formula::Cell(load, month) / sustains.clone()),
    )?;
    let target = book.series(
        &line(
            "target",
            "hosts with the forecast's margin",
            "as above, for load · (1 + z · σ)",
        ),
        months,
        |month, _| {
            let load = Formula::Cell(load, month) * margin.clone();
            one(extra) + one(step) * up(load / sustains.clone())
        },
    )?;
    Ok((needed, target))
}

/// What a payment of each month is worth in the first: up to the horizon, and to the end of a life.
fn discounts(
    book: &mut SheetBuilder,
    question: &Question,
    rate: Option<Row>,
) -> Result<Row, BillError> {
    let life = question.months(CostKey::Life)?;
    let monthly = book.line(
        &Line {
            key: "monthly_rate",
            what: "cost of capital a month",
            unit: "share a month",
            decimals: FACTOR,
            words: "cost of capital a year / 12",
        },
        rate.map_or_else(|| whole(0), |rate| one(rate) / whole(12)),
    )?;
    book.series(
        &Line {
            key: "discount",
            what: "discount factor",
            unit: "",
            decimals: FACTOR,
            words: "1 in the first month; then that of the month before / (1 + cost of capital a month)",
        },
        (question.horizon as usize).max(life) + 1,
        |month, own| match month.checked_sub(1) {
            None => whole(1),
            Some(before) => Formula::Cell(own, before) / (whole(1) + one(monthly)),
        },
    )
}

fn load(
    book: &mut SheetBuilder,
    question: &Question,
    growth: Option<Row>,
) -> Result<Row, BillError> {
    let months = question.horizon as usize;
    let words = match question.load.len() {
        1 => format!(
            "{} in the first month; then that of the month before · (1 + growth)",
            question.load_source
        ),
        _ => question.load_source.clone(),
    };
    let line = Line {
        key: "load",
        what: "load at its peak",
        unit: &question.load_unit,
        decimals: LOAD,
        words: &words,
    };
    if question.load.len() > 1 {
        return Ok(book.given(&line, question.load.get(..months).unwrap_or(&[]), true));
    }
    let first = question.load.first().copied().unwrap_or(Fraction::ZERO);
    let factor = growth.map_or_else(|| whole(1), |growth| whole(1) + one(growth));
    book.series(&line, months, |month, own| match month.checked_sub(1) {
        None => Formula::Number(first),
        Some(before) => Formula::Cell(own, before) * factor.clone(),
    })
}

/// Share of a month's hours from which on owning a host costs less than renting it for those hours.
fn break_even(
    book: &mut SheetBuilder,
    base: &Base,
    host: Option<&HostCost>,
    rent: Option<&Rent>,
) -> Result<Option<Row>, BillError> {
    let (Some(host), Some(rent), Some(availability)) =
        (host, rent, base.input(CostKey::Availability))
    else {
        return Ok(None);
    };
    if book.value(rent.hour) <= Fraction::ZERO {
        return Ok(None);
    }
    let formula = one(host.month) / (one(base.hours) * one(availability) * one(rent.hour));
    let line = Line {
        key: "break_even",
        what: "break-even use of a host",
        unit: "share of hours",
        decimals: FACTOR,
        words: "owned host a month / (hours · availability · rent of an hour)",
    };
    book.line(&line, formula).map(Some)
}

/// What is served, and what each unit of it costs in each strategy.
fn units(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
    strategies: &mut [(Strategy, Result<Totals, Vec<CostKey>>)],
) -> Result<(), BillError> {
    for (index, unit) in question.units.iter().enumerate() {
        let share = match (unit.share, base.input(CostKey::InputShare)) {
            (UnitShare::Prompts, Some(share)) => one(share),
            (UnitShare::Answers, Some(share)) => whole(1) - one(share),
            _ => whole(1),
        };
        let duty = base.input(CostKey::Duty).map_or_else(|| whole(1), one);
        let served = book.series(
            &Line {
                key: &format!("served_{index}"),
                what: &format!("served: {}", unit.name),
                unit: &unit.name,
                decimals: MONEY,
                words: "load · mean over peak load · what one unit of load serves in a month",
            },
            base.months,
            |month, _| {
                let per = Formula::Number(unit.per_load_month);
                Formula::Cell(base.load, month) * duty.clone() * per
            },
        )?;
        let all = Formula::TotalProduct(served, base.discount, base.months);
        for (strategy, outcome) in strategies.iter_mut() {
            let Ok(totals) = outcome else { continue };
            let price = one(totals.discounted) * share.clone() / all.clone();
            let currency = book.currency;
            let row = book.line(
                &Line {
                    key: &format!("{}_per_unit_{index}", strategy.key()),
                    what: &format!("{}: per {}", strategy.name(), unit.name),
                    unit: &format!("{currency} per {}", unit.name),
                    decimals: MONEY,
                    words: "discounted total · its share / what is served, discounted",
                },
                price,
            )?;
            totals.per_unit.push(row);
        }
    }
    Ok(())
}

fn footprint(
    book: &mut SheetBuilder,
    base: &Base,
) -> Result<(Option<Row>, Option<Row>), BillError> {
    let Ok([power, pue]) = base.inputs([CostKey::Power, CostKey::Pue]) else {
        return Ok((None, None));
    };
    let monthly = book.series(
        &Line {
            key: "energy",
            what: "energy of hosts that carry the load",
            unit: "kWh",
            decimals: MONEY,
            words: "hosts · mean power · PUE · hours",
        },
        base.months,
        |month, _| Formula::Cell(base.needed, month) * one(power) * one(pue) * one(base.hours),
    )?;
    let energy = book.line(
        &Line {
            key: "energy_total",
            what: "energy over the horizon",
            unit: "kWh",
            decimals: MONEY,
            words: "all months added up",
        },
        Formula::Total(monthly, base.months),
    )?;
    let Some(grid) = base.input(CostKey::Grid) else {
        return Ok((Some(energy), None));
    };
    let carbon = book.line(
        &Line {
            key: "carbon",
            what: "emissions over the horizon",
            unit: "kg CO2e",
            decimals: MONEY,
            words: "energy · g/kWh / 1000",
        },
        one(energy) * one(grid) / whole(1000),
    )?;
    Ok((Some(energy), Some(carbon)))
}
