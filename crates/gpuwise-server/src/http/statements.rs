//! Statements.

use super::{Problem, call::Call, documents::time, json, page, statement_page};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gpuwise_account::{
    focus::{self, Account},
    period::{HOUR, Month},
    prices::{LENT_WHOLE, Metered},
    statement::{Cause, Line, Statement},
    usage::{Granted, Quantity},
};
use gpuwise_broker::{Refusal, exact};
use gpuwise_units::{Currency, Fraction, Money, Nanoseconds};
use gpuwise_wire::broker::{StatementAnswer, StatementLine, StatementTotal};

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let tenant = call.parameter("tenant");
    let month = call.parameter("month");
    let month: Month = match month {
        "this" => Month::of(call.now()),
        said => said.parse().map_err(|_| {
            let what = format!("{said:?}: expected a month such as 2026-11, or `this`");
            Problem::invalid("month", what)
        })?,
    };
    let broker = call.shared.broker();
    if !call.sees(tenant) || broker.tenant(tenant).is_none() {
        return Err(Refusal::NoSuchTenant(tenant.to_owned()).into());
    }
    let now = call.now();
    let statement = broker.statement(now, tenant, month);
    let closed = month < broker.unclosed();
    drop(broker);
    match call.query("format").unwrap_or("json") {
        "json" => Ok(json(StatusCode::OK, &answer(&statement, now))),
        "focus" => {
            let text =
                focus::rows(&statement, &Account::of("gpuwise")).and_then(|rows| focus::csv(&rows));
            let text = text.map_err(|error| Problem::invalid("format", error.to_string()))?;
            let form = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
            Ok((form, text).into_response())
        }
        "html" => {
            let text = statement_page::page(&answer(&statement, now), closed);
            Ok(page::html(StatusCode::OK, text))
        }
        other => Err(Problem::invalid(
            "format",
            format!("{other:?}: expected json, focus or html"),
        )),
    }
}

fn answer(statement: &Statement, now: Nanoseconds) -> StatementAnswer {
    let totals = statement.totals().into_iter().map(|(currency, total)| {
        let of = |money: Option<Money>| money.map_or_else(|| "too large".into(), exact);
        StatementTotal {
            currency: currency.to_string(),
            charge: of(total.money(currency)),
            earned: earned(total.credits, currency),
            payable: of(total.payable(currency)),
        }
    });
    StatementAnswer {
        tenant: statement.tenant.clone(),
        month: statement.month.to_string(),
        until: time(now.min(statement.month.interval().end)),
        lines: statement.lines.iter().map(line).collect(),
        totals: totals.collect(),
    }
}

/// What credits come to; `None`: there are none.
fn earned(micros: i128, currency: Currency) -> Option<String> {
    let micros = i64::try_from(micros).ok().filter(|micros| *micros != 0)?;
    Some(exact(Money { micros, currency }))
}

fn line(line: &Line) -> StatementLine {
    let item = line.item.as_ref();
    let sold = item.filter(|item| item.lent_milli.is_none());
    let lent = item.filter(|item| item.lent_milli.is_some());
    let price = item.and_then(|item| item.price.as_ref());
    StatementLine {
        cause: match line.cause {
            Cause::Usage if line.is_credit() => "lent",
            Cause::Usage => "usage",
            Cause::Reversal(_) => "reversal",
            Cause::Restated(_) => "restated",
            Cause::Shared(_) => "shared",
        }
        .into(),
        lease: item.map(|item| item.lease.clone()),
        gpu: item.map(|item| item.kind.clone()),
        part: item.map(|item| part(&item.granted)),
        isolation: item.map(|item| item.isolation.name().into()),
        class: item.map(|item| item.class.name().into()),
        from: time(line.interval.start),
        to: time(line.interval.end),
        granted_hours: sold.map(|item| hours(item.granted_ns)),
        lent_hours: lent.map(|item| hours(item.granted_ns)),
        lent_share: lent.and_then(|item| item.lent_milli.map(share)),
        start_hours: item.and_then(|item| item.used.get(Quantity::StartTime).map(hours)),
        used_hours: item.and_then(|item| item.used.get(Quantity::SmTime).map(hours)),
        measured_hours: item
            .filter(|item| item.used.measured_ns > 0)
            .map(|item| hours(item.used.measured_ns.min(item.granted_ns))),
        quantity: item.map(|item| item.quantity.plain(9)),
        unit: item.map(|item| unit(item.metered).into()),
        unit_price: price.map(|price| format!("{} {}", price.unit_price.plain(9), price.currency)),
        charge: line.charge.ok().map(exact),
        unpriced: line.charge.err().map(|why| why.sentence().into()),
    }
}

fn part(granted: &Granted) -> String {
    match granted {
        Granted::Nothing => "none".into(),
        Granted::Whole => "whole".into(),
        Granted::Fraction { compute_milli, .. } => {
            format!("{}", f64::from(*compute_milli) / 1000.0)
        }
        Granted::Slice { profile, .. } => profile.clone(),
    }
}

const fn unit(metered: Metered) -> &'static str {
    match metered {
        Metered::GpuTime => "GPU-hour",
        Metered::TokensIn => "1M input tokens",
        Metered::TokensOut => "1M output tokens",
        Metered::Energy => "kWh",
    }
}

/// Thousandths as a decimal.
pub(super) fn share(milli: u32) -> String {
    let share = Fraction::new(i128::from(milli), i128::from(LENT_WHOLE));
    share.unwrap_or(Fraction::ZERO).plain(3)
}

fn hours(nanoseconds: u64) -> String {
    let hours = Fraction::new(i128::from(nanoseconds), i128::from(HOUR));
    hours.unwrap_or(Fraction::ZERO).plain(9)
}
