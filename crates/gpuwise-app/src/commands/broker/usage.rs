//! `gpuwise usage`: what leases used, told and shown.

use super::client::{BrokerFlags, moment, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    questions::read_text,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{LeaseUsageAnswer, UsageAnswer};
use serde_json::Value;
use std::{fmt::Write as _, path::PathBuf};

#[derive(Debug, Subcommand)]
pub enum UsageCommand {
    /// Show what a lease used lately, and how much of the time was measured
    Show(Show),
    /// Tell the broker what leases used: a CloudEvent or a batch of them, as JSON
    ///
    /// Exit code 0: all of it counts, or did already. 1: some is kept aside. 2: the input is wrong.
    Report(Report),
}

#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Which lease, such as L-42
    #[arg(value_name = "LEASE")]
    lease: String,
    /// Of the last so long
    #[arg(long, value_name = "TIME", default_value = "24h")]
    last: String,
}

#[derive(Debug, Args)]
pub struct Report {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A file with a CloudEvent or an array of them; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(context: &Context, command: &UsageCommand) -> anyhow::Result<Exit> {
    match command {
        UsageCommand::Show(flags) => show(context, flags),
        UsageCommand::Report(flags) => report(context, flags),
    }
}

fn show(context: &Context, flags: &Show) -> anyhow::Result<Exit> {
    let plain = |text: &str| {
        let mut bytes = text.bytes();
        !text.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    if !plain(&flags.lease) {
        let what = format!("{:?} is no lease; expected one such as L-42", flags.lease);
        return Err(Problem::new(what).into());
    }
    if !plain(&flags.last) {
        let what = format!("--last {:?}: expected a time such as 24h", flags.last);
        return Err(Problem::new(what).into());
    }
    let client = flags.broker.client(context.app.offline)?;
    let path = format!("/v1/leases/{}/usage?last={}", flags.lease, flags.last);
    let usage: LeaseUsageAnswer = client.get(&path)?;
    shown(context, &usage, || table(&usage))
}

fn report(context: &Context, flags: &Report) -> anyhow::Result<Exit> {
    let text = read_text(&flags.file)?;
    let events: Value = serde_json::from_str(&text).map_err(|error| {
        Problem::new(format!("{} is no JSON", flags.file.display())).because(error)
    })?;
    let client = flags.broker.client(context.app.offline)?;
    let answer: UsageAnswer = client.post("/v1/usage", None, &events)?;
    let mut text = format!(
        "{} accepted, {} known already, {} kept aside\n",
        answer.accepted,
        answer.duplicates,
        answer.aside.len()
    );
    for one in &answer.aside {
        let _ = writeln!(text, "  {} {}: {}", one.source, one.id, one.reason);
    }
    context.data(&text)?;
    Ok(if answer.aside.is_empty() {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn table(usage: &LeaseUsageAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("lease", "Lease"),
        Column::left("from", "From").priority(4),
        Column::left("to", "To").priority(4),
        Column::right("measured", "Measured").unit("%"),
        Column::right("requests", "Requests"),
        Column::right("rate", "Rate").unit("/s"),
        Column::right("prompt_tokens", "Tokens in").priority(2),
        Column::right("completion_tokens", "out").priority(2),
        Column::right("ttft_p95", "TTFT p95").unit("ms"),
        Column::right("tpot_p95", "TPOT p95").unit("ms"),
        Column::right("busy", "Busy").unit("%").priority(1),
        Column::right("kilowatt_hours", "kWh").priority(3),
    ]);
    let percent = |share: f64| Cell::new(format!("{:.0}", share * 100.0), share);
    let milli = |seconds: f64| Cell::new(gpuwise_units::significant(seconds * 1e3, 3), seconds);
    let number = |value: f64| Cell::new(gpuwise_units::significant(value, 3), value);
    table.push(vec![
        Cell::text(usage.id.clone()),
        moment(&usage.from),
        moment(&usage.to),
        percent(usage.measured),
        Cell::count(usage.requests),
        Cell::of(usage.rate, number),
        Cell::of(usage.prompt_tokens, Cell::count),
        Cell::of(usage.completion_tokens, Cell::count),
        Cell::of(usage.ttft_p95, milli),
        Cell::of(usage.tpot_p95, milli),
        Cell::of(usage.busy, percent),
        Cell::of(usage.kilowatt_hours, number),
    ]);
    if usage.measured < 0.995 {
        table.footnote(
            "what was not measured is no use of 0: GPU time is billed by what was granted, measured or not",
        );
    }
    table
}
