//! What a host of one's own costs, once and a month.

use super::{
    BillError, Question,
    lines::Base,
    sheet::{Line, MONEY, Row, SheetBuilder, one, whole},
};
use alloc::{format, vec::Vec};
use gpuwise_domain::bill::{CostKey, Formula};

pub(super) struct HostCost {
    /// With its share of network, storage and spares.
    pub(super) capital: Row,
    pub(super) running: Row,
    /// A month in all, its price spread over its life.
    pub(super) month: Row,
    pub(super) gpu_hour: Option<Row>,
    /// What it brings at the end of its life, as a share.
    pub(super) residual: Row,
    pub(super) life: usize,
}

/// What an owned host costs, or what is missing to tell.
pub(super) fn host_cost(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
) -> Result<Result<HostCost, Vec<CostKey>>, BillError> {
    let keys = [
        CostKey::Capital,
        CostKey::Network,
        CostKey::Spares,
        CostKey::Residual,
        CostKey::Support,
        CostKey::Power,
        CostKey::PeakPower,
        CostKey::Pue,
        CostKey::Energy,
        CostKey::Space,
        CostKey::Staff,
        CostKey::Life,
    ];
    let rows = match base.inputs(keys) {
        Ok(rows) => rows,
        Err(missing) => return Ok(Err(missing)),
    };
    let [price, network, spares, residual, rest @ ..] = rows;
    let life = question.months(CostKey::Life)?;
    let unit = format!("{} per host", book.currency);
    let capital = book.line(
        &Line {
            key: "capital_all",
            what: "a host with network, storage and spares",
            unit: &unit,
            decimals: MONEY,
            words: "price of a host · (1 + network and storage) · (1 + spare hosts)",
        },
        one(price) * (whole(1) + one(network)) * (whole(1) + one(spares)),
    )?;
    let running = running(book, base, capital, rest)?;
    let month = month(book, base, capital, residual, running, life)?;
    let gpu_hour = gpu_hour(book, base, question, month)?;
    Ok(Ok(HostCost {
        capital,
        running,
        month,
        gpu_hour,
        residual,
        life,
    }))
}

fn running(
    book: &mut SheetBuilder,
    base: &Base,
    capital: Row,
    [support, power, peak, pue, energy, space, staff, _]: [Row; 8],
) -> Result<Row, BillError> {
    let parts = [
        (
            "power_month",
            "energy of a host",
            "mean power · PUE · hours · price of energy",
            one(power) * one(pue) * one(base.hours) * one(energy),
        ),
        (
            "space_month",
            "space of a host",
            "largest power · space",
            one(peak) * one(space),
        ),
        (
            "staff_month",
            "people for a host",
            "people / 12",
            one(staff) / whole(12),
        ),
        (
            "support_month",
            "support and repair of a host",
            "a host with network, storage and spares · support / 12",
            one(capital) * one(support) / whole(12),
        ),
    ];
    let mut sum = None;
    for (key, what, words, formula) in parts {
        let part = one(line(book, key, what, words, formula)?);
        sum = Some(match sum {
            None => part,
            Some(sum) => sum + part,
        });
    }
    line(
        book,
        "running_month",
        "running a host",
        "energy + space + people + support",
        sum.unwrap_or_else(|| whole(0)),
    )
}

/// An owned host a month: its price less what it brings at the end, spread over its life at the cost
/// of capital, and running it.
fn month(
    book: &mut SheetBuilder,
    base: &Base,
    capital: Row,
    residual: Row,
    running: Row,
    life: usize,
) -> Result<Row, BillError> {
    let charge = line(
        book,
        "capital_month",
        "price of a host, spread over its life",
        "(a host with network, storage and spares − residual value at the end of its life, discounted) / the discount factors of its life, added up",
        (one(capital) - one(capital) * one(residual) * Formula::Cell(base.discount, life))
            / Formula::Total(base.discount, life),
    )?;
    line(
        book,
        "owned_month",
        "an owned host",
        "its price spread over its life + running it",
        one(charge) + one(running),
    )
}

fn gpu_hour(
    book: &mut SheetBuilder,
    base: &Base,
    question: &Question,
    month: Row,
) -> Result<Option<Row>, BillError> {
    let Some(availability) = base.input(CostKey::Availability) else {
        return Ok(None);
    };
    let unit = format!("{} per GPU-hour", book.currency);
    let gpus = Formula::Number(question.gpus_per_host);
    let formula = one(month) / (one(base.hours) * one(availability) * gpus);
    book.line(
        &Line {
            key: "owned_gpu_hour",
            what: "an owned GPU, used whenever it can be",
            unit: &unit,
            decimals: MONEY,
            words: "an owned host / (hours · availability · GPUs of a host)",
        },
        formula,
    )
    .map(Some)
}

/// A line of money per host and month.
fn line(
    book: &mut SheetBuilder,
    key: &str,
    what: &str,
    words: &str,
    formula: Formula,
) -> Result<Row, BillError> {
    let unit = format!("{} per host and month", book.currency);
    book.line(
        &Line {
            key,
            what,
            unit: &unit,
            decimals: MONEY,
            words,
        },
        formula,
    )
}
