//! `gpuwise prices`: what GPUs cost, to whom, from when on.

use super::client::{BrokerFlags, moment, money, shown};
use crate::{
    app::{Context, Exit},
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{PriceAnswer, PriceAsk, PriceList};

#[derive(Debug, Subcommand)]
pub enum PriceCommand {
    /// List prices: what says more closely what it is for goes first
    List(BrokerFlags),
    /// Set a price from a moment on; the one that was for the same ends there
    ///
    /// Where that moment is in the past, months that are closed stay as they were stated, and the first month
    /// that is open corrects them. Budgets hold what leases may cost by the new price; a lease for which a
    /// budget has too little left is told to end.
    Set(Set),
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A GPU of the fleet, such as H100
    #[arg(value_name = "GPU")]
    gpu: String,
    /// For a GPU-hour, such as 2.50usd
    #[arg(value_name = "PRICE")]
    price: String,
    /// From when on (UTC), such as 2026-12-01 or 2026-12-01T08:00:00Z [default: now]
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// For one tenant alone
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// on-demand or spot [default: both]
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// A MIG profile, or whole [default: any part, by its share]
    #[arg(long, value_name = "PART")]
    part: Option<String>,
    /// The share of what is charged by it that whoever lent the capacity earns, such as 0.3 or 30% [default: 0.5]
    #[arg(long, value_name = "SHARE")]
    lent_share: Option<String>,
    /// A key under which a repeated request is done once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub fn run(context: &Context, command: &PriceCommand) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::Prices);
    let list: PriceList = match command {
        PriceCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            client.get("/v1/prices")?
        }
        PriceCommand::Set(flags) => {
            let ask = PriceAsk {
                gpu: flags.gpu.clone(),
                price: spaced(&flags.price),
                from: flags.from.clone(),
                tenant: flags.tenant.clone(),
                class: flags.class.clone(),
                part: flags.part.clone(),
                lent_share: flags.lent_share.clone(),
            };
            let client = flags.broker.client(context.app.offline)?;
            client.post("/v1/prices", flags.key.as_deref(), &ask)?
        }
    };
    shown(&context, &list, || table(&list.items))
}

/// `2.50usd` as `2.50 USD`.
fn spaced(price: &str) -> String {
    let price = price.trim();
    let at = price.find(|c: char| c.is_ascii_alphabetic());
    at.map_or_else(
        || price.to_owned(),
        |at| {
            format!(
                "{} {}",
                price[..at].trim(),
                price[at..].to_ascii_uppercase()
            )
        },
    )
}

fn table(prices: &[PriceAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::right("price", "Price").unit("/GPU-h"),
        Column::left("from", "From"),
        Column::left("to", "To"),
        Column::left("tenant", "Tenant"),
        Column::left("class", "Class"),
        Column::left("part", "Part"),
        Column::right("lent_share", "Lender's share").priority(2),
    ]);
    for one in prices {
        let text = |text: &Option<String>| Cell::of(text.clone(), Cell::text);
        table.push(vec![
            text(&one.gpu),
            money(&one.price),
            Cell::of(one.from.as_deref(), moment),
            Cell::of(one.to.as_deref(), moment),
            text(&one.tenant),
            text(&one.class),
            text(&one.part),
            Cell::text(one.lent_share.clone()),
        ]);
    }
    table
}
