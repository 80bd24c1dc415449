//! `gpuwise statement`: what a tenant is charged.

use super::client::{BrokerFlags, money, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    schemas::AnswerName,
};
use clap::Args;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::StatementAnswer;

#[derive(Debug, Args)]
pub struct StatementFlags {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Whose
    #[arg(value_name = "TENANT")]
    tenant: String,
    /// Which month (UTC), such as 2026-11 [default: that of the broker]
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
}

pub fn run(context: &Context, flags: &StatementFlags) -> anyhow::Result<Exit> {
    let plain = |text: &str| !text.is_empty() && !text.contains(['/', '?', '#', '%', ' ']);
    if !plain(&flags.tenant) {
        return Err(Problem::new(format!("there is no tenant {:?}", flags.tenant)).into());
    }
    let month = flags.month.clone().unwrap_or_else(|| "this".into());
    if !plain(&month) {
        let what = format!("--month {month:?}: expected a month such as 2026-11");
        return Err(Problem::new(what).into());
    }
    let client = flags.broker.client(context.app.offline)?;
    let path = format!("/v1/tenants/{}/statements/{month}", flags.tenant);
    if context.form.focus {
        context.data(&client.text(&format!("{path}?format=focus"))?)?;
        return Ok(Exit::Yes);
    }
    if context.form.html {
        context.data(&client.text(&format!("{path}?format=html"))?)?;
        return Ok(Exit::Yes);
    }
    let statement: StatementAnswer = client.get(&path)?;
    shown(
        &context.answering(AnswerName::Statement),
        &statement,
        || table(&statement),
    )
}

/// That what was used was not measured all the time, where somebody measured at all.
fn gaps(statement: &StatementAnswer) -> Option<String> {
    let hours = |text: &Option<String>| text.as_deref()?.parse::<f64>().ok();
    let gap = |line: &gpuwise_wire::broker::StatementLine| {
        let (granted, measured) = (hours(&line.granted_hours)?, hours(&line.measured_hours)?);
        let lease = line.lease.as_deref()?;
        (measured < granted * 0.995).then(|| format!("{lease} for {measured:.1} of {granted:.1} h"))
    };
    let gaps: Vec<String> = statement.lines.iter().filter_map(gap).collect();
    (!gaps.is_empty()).then(|| {
        format!(
            "What was used is measured of {}; the rest is charged by what was granted.",
            gaps.join(", ")
        )
    })
}

/// What lent capacity earned, where it did.
fn earned(statement: &StatementAnswer) -> Option<String> {
    let lent = statement.lines.iter().filter(|line| line.cause == "lent");
    let hours: f64 = lent
        .filter_map(|line| line.lent_hours.as_deref()?.parse::<f64>().ok())
        .sum();
    let totals = statement.totals.iter();
    let earned: Vec<&str> = totals
        .filter_map(|total| total.earned.as_deref())
        .map(|earned| earned.trim_start_matches('-'))
        .collect();
    (!earned.is_empty()).then(|| {
        format!(
            "What was kept for sleeping spares and lent for {hours:.2} GPU-h earned {}.",
            earned.join(" and ")
        )
    })
}

fn table(statement: &StatementAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("lease", "Lease"),
        Column::left("gpu", "GPU"),
        Column::left("part", "Part"),
        Column::left("class", "Class").priority(2),
        Column::right("granted_hours", "Granted").unit("h"),
        Column::right("lent_hours", "Lent").unit("h").priority(1),
        Column::right("start_hours", "Start-up")
            .unit("h")
            .priority(1),
        Column::right("used_hours", "Used").unit("h").priority(1),
        Column::right("quantity", "Charged"),
        Column::left("unit", "Unit").priority(3),
        Column::right("unit_price", "Price"),
        Column::right("charge", "Charge"),
    ]);
    let decimal = |text: &str| {
        let value: f64 = text.parse().unwrap_or(f64::NAN);
        // Slices of minutes are seen, too.
        let decimals = if value.abs() < 1.0 { 4 } else { 2 };
        Cell::new(format!("{value:.decimals$}"), text)
    };
    for line in &statement.lines {
        let text = |text: &Option<String>| Cell::of(text.clone(), Cell::text);
        table.push(vec![
            Cell::of(
                line.lease.clone().or_else(|| Some(line.cause.clone())),
                Cell::text,
            ),
            text(&line.gpu),
            text(&line.part),
            text(&line.class),
            Cell::of(line.granted_hours.as_deref(), decimal),
            Cell::of(line.lent_hours.as_deref(), decimal),
            Cell::of(line.start_hours.as_deref(), decimal),
            Cell::of(line.used_hours.as_deref(), decimal),
            Cell::of(line.quantity.as_deref(), decimal),
            text(&line.unit),
            Cell::of(line.unit_price.as_deref(), money),
            match &line.charge {
                Some(charge) => money(charge),
                None => Cell::text("unpriced"),
            },
        ]);
    }
    if statement
        .until
        .get(..7)
        .is_some_and(|now| now < statement.month.as_str())
    {
        return table.when_empty(format!("{} has not begun.", statement.month));
    }
    if let Some(gaps) = gaps(statement) {
        table.footnote(gaps);
    }
    if let Some(earned) = earned(statement) {
        table.footnote(earned);
    }
    let totals = statement.totals.iter();
    let totals: Vec<String> = totals.map(|total| total.payable.clone()).collect();
    table.footnote(format!(
        "{}, {} until {}: {}.",
        statement.tenant,
        statement.month,
        statement
            .until
            .split_once('.')
            .map_or(statement.until.as_str(), |(short, _)| short)
            .replace('T', " "),
        if totals.is_empty() {
            "nothing is charged".into()
        } else {
            format!("payable {}", totals.join(" and "))
        }
    ));
    table
}
