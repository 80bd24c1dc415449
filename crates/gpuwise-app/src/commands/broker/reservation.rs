//! `gpuwise reservation`: GPUs that are kept for tenants.

use super::client::{BrokerFlags, moment, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{ReservationAnswer, ReservationAsk, ReservationList};

#[derive(Debug, Subcommand)]
pub enum ReservationCommand {
    /// List GPUs that are kept for tenants
    List(BrokerFlags),
    /// Keep GPUs of a node for a tenant, from when to when
    ///
    /// Until they are due others may sit on them who end before, or who may be stopped. Nothing is charged for
    /// them until the tenant leases them.
    Create(Create),
    /// Withdraw a reservation
    Withdraw(Withdraw),
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    broker: BrokerFlags,
    /// What it is called
    #[arg(value_name = "NAME")]
    name: String,
    /// For whom
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// A node of the fleet
    #[arg(long, value_name = "NODE")]
    node: String,
    /// Whole GPUs of it
    #[arg(long, value_name = "N")]
    gpus: u32,
    /// From when on (UTC), such as 2026-12-01 or 2026-12-01T08:00:00Z [default: now]
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Until when, that moment not included
    #[arg(long, value_name = "MOMENT", required_unless_present = "length")]
    until: Option<String>,
    /// For how long, in place of --until, such as 8h
    #[arg(long = "for", value_name = "TIME", conflicts_with = "until")]
    length: Option<String>,
    /// A key under which a repeated request is done once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Withdraw {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Which, as `gpuwise reservation list` names it
    #[arg(value_name = "NAME")]
    name: String,
}

pub fn run(context: &Context, command: &ReservationCommand) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::Reservations);
    let list: ReservationList = match command {
        ReservationCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            client.get("/v1/reservations")?
        }
        ReservationCommand::Create(flags) => {
            let ask = ReservationAsk {
                name: flags.name.clone(),
                tenant: flags.tenant.clone(),
                node: flags.node.clone(),
                gpus: flags.gpus,
                from: flags.from.clone(),
                until: flags.until.clone(),
                length: flags.length.clone(),
            };
            let client = flags.broker.client(context.app.offline)?;
            let made = client.post("/v1/reservations", flags.key.as_deref(), &ask)?;
            ReservationList { items: vec![made] }
        }
        ReservationCommand::Withdraw(flags) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
            if flags.name.is_empty() || !flags.name.bytes().all(plain) {
                let what = format!("{:?} is no reservation", flags.name);
                let hint = "`gpuwise reservation list` lists them";
                return Err(Problem::new(what).hint(hint).into());
            }
            let client = flags.broker.client(context.app.offline)?;
            let name = flags.name.replace('/', "%2F");
            client.delete(&format!("/v1/reservations/{name}"))?;
            client.get("/v1/reservations")?
        }
    };
    shown(&context, &list, || table(&list.items))
}

fn table(items: &[ReservationAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "Reservation"),
        Column::left("tenant", "Tenant"),
        Column::left("node", "Node"),
        Column::right("gpus", "GPUs"),
        Column::left("from", "From"),
        Column::left("until", "Until"),
    ]);
    for one in items {
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::text(one.tenant.clone()),
            Cell::text(one.node.clone()),
            Cell::text(one.gpus.to_string()),
            moment(&one.from),
            moment(&one.until),
        ]);
    }
    table
}
