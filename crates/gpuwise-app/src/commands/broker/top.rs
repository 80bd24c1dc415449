//! `gpuwise top`: who holds, who waits, what it costs, live.

use super::client::{BrokerFlags, Client, money, shown};
use crate::{
    app::{Context, Exit, Format},
    schemas::AnswerName,
};
use clap::Args;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{FleetAnswer, LeaseList, TenantList, TopAnswer};
use std::{io::IsTerminal as _, thread, time::Duration};

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Show it once, and end; usual where nobody watches a terminal
    #[arg(long)]
    once: bool,
    /// Seconds between looks
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
}

/// Leases that are shown at most.
const MOST: usize = 30;

pub fn run(context: &Context, flags: &Top) -> anyhow::Result<Exit> {
    let client = flags.broker.client(context.app.offline)?;
    let context = context.answering(AnswerName::Top);
    let once =
        flags.once || context.form.format != Format::Table || !std::io::stdout().is_terminal();
    loop {
        let seen = look(&client)?;
        if once {
            return show(&context, &seen);
        }
        // From the first place of a cleared screen.
        context.data("\x1b[2J\x1b[H")?;
        show(&context, &seen)?;
        thread::sleep(Duration::from_secs(u64::from(flags.every)));
    }
}

fn look(client: &Client) -> anyhow::Result<TopAnswer> {
    let fleet: FleetAnswer = client.get("/v1/fleet")?;
    let tenants: TenantList = client.get("/v1/tenants")?;
    let leases: LeaseList = client.get("/v1/leases?state=open&limit=1000")?;
    let gpus = || {
        let pooled = fleet.pools.iter().flat_map(|pool| &pool.gpus);
        fleet.nodes.iter().flat_map(|node| &node.gpus).chain(pooled)
    };
    Ok(TopAnswer {
        fleet: fleet.name.clone(),
        now: fleet.now.clone(),
        gpus: u32::try_from(gpus().count()).unwrap_or(u32::MAX),
        held: u32::try_from(gpus().filter(|gpu| !gpu.holders.is_empty()).count())
            .unwrap_or(u32::MAX),
        tenants: tenants.items,
        leases: leases.items,
    })
}

fn show(context: &Context, seen: &TopAnswer) -> anyhow::Result<Exit> {
    if context.form.format == Format::Table {
        let now = seen
            .now
            .split_once('.')
            .map_or(seen.now.as_str(), |(short, _)| short);
        let waiting = seen
            .leases
            .iter()
            .filter(|lease| lease.state == "requested")
            .count();
        context.data(&format!(
            "{}  {}  GPUs {} of {} held  leases {}, {waiting} waiting\n\n",
            seen.fleet,
            now.replace('T', " "),
            seen.held,
            seen.gpus,
            seen.leases.len(),
        ))?;
        context.table(&tenants(seen))?;
        context.data("\n")?;
    }
    shown(context, seen, || leases(seen))
}

fn tenants(seen: &TopAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant", "Tenant"),
        Column::right("gpus", "GPUs"),
        Column::right("leases", "Leases"),
        Column::right("spent", "Spent"),
        Column::right("reserved", "Reserved"),
        Column::right("budget", "Budget").unit("/month"),
    ]);
    for one in &seen.tenants {
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::number(one.gpus),
            Cell::number(f64::from(one.leases)),
            Cell::of(one.spent.as_deref(), money),
            Cell::of(one.reserved.as_deref(), money),
            Cell::of(one.budget.as_deref(), money),
        ]);
    }
    table
}

fn leases(seen: &TopAnswer) -> Table {
    let mut table = super::lease::table(seen.leases.get(..MOST).unwrap_or(&seen.leases));
    if let Some(more) = seen.leases.len().checked_sub(MOST).filter(|more| *more > 0) {
        table.footnote(format!("and {more} more; `gpuwise lease list` shows all"));
    }
    table
}
