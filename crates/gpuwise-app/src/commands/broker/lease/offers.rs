//! `gpuwise lease offers`: what could be had now and when, at what price.

use crate::{
    app::{Context, Exit},
    commands::broker::client::{BrokerFlags, moment, money, shown},
    error::Problem,
    schemas::AnswerName,
};
use clap::Args;
use gpuwise_units::Seconds;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{ColdStart, OfferList};

#[derive(Debug, Args)]
pub struct Offers {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Only GPUs whose name holds this
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// GPUs on one node
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// At the prices of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

pub(super) fn run(context: &Context, flags: &Offers) -> anyhow::Result<Exit> {
    let mut path = format!("/v1/offers?count={}", flags.count);
    for (name, value) in [("gpu", &flags.gpu), ("tenant", &flags.tenant)] {
        let Some(value) = value else {
            continue;
        };
        if value.contains(['&', '#', '%', '+', '=']) {
            return Err(Problem::new(format!("--{name} {value:?} is no name")).into());
        }
        path.extend(["&", name, "=", &value.replace(' ', "+")]);
    }
    let client = flags.broker.client(context.app.offline)?;
    let list: OfferList = client.get(&path)?;
    shown(&context.answering(AnswerName::LeaseOffers), &list, || {
        let mut table = Table::new(vec![
            Column::left("gpu", "GPU"),
            Column::left("features", "Features"),
            Column::right("gpus", "GPUs"),
            Column::right("free", "Free"),
            Column::right("together", "On one node"),
            Column::left("from", "From"),
            Column::right("price", "Price").unit("/GPU-h"),
            Column::right("spot_price", "Spot").unit("/GPU-h"),
        ]);
        for one in &list.items {
            table.push(vec![
                Cell::text(one.gpu.clone()),
                Cell::text(one.features.join(", ")),
                Cell::number(f64::from(one.gpus)),
                Cell::number(f64::from(one.free)),
                Cell::number(f64::from(one.together)),
                if one.now {
                    Cell::text("now")
                } else {
                    Cell::of(one.from.as_deref(), moment)
                },
                Cell::of(one.price.as_deref(), money),
                Cell::of(one.spot_price.as_deref(), money),
            ]);
        }
        if list.count > 1 {
            table.footnote(format!("From: {} GPUs on one node.", list.count));
        }
        for one in &list.services {
            table.footnote(cold(one));
        }
        table
    })
}

/// What a service takes to answer from nothing.
pub(super) fn cold(one: &ColdStart) -> String {
    format!(
        "{} of {} answers from nothing in {} (p50), {} (p99), of {} cold starts",
        one.service,
        one.tenant,
        Seconds::new(one.p50),
        Seconds::new(one.p99),
        one.starts
    )
}
