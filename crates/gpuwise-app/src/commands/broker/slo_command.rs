//! `gpuwise slo`: what tenants and leases are held to.

use super::client::{BrokerFlags, money, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{SloAnswer, SloAsk, SloCostList, SloList};

#[derive(Debug, Subcommand)]
pub enum SloCommand {
    /// Set the SLO of a lease, or of all leases of a tenant
    ///
    /// Exit code 0: it is set. 2: the input is wrong.
    Set(Box<Set>),
    /// Show SLOs: what was good, what is left of the error budgets, how fast they burn
    ///
    /// Exit code 0: nothing burns too fast. 1: something does.
    Show(Show),
    /// Write rules for Prometheus that call somebody when an error budget burns too fast
    Rules(BrokerFlags),
    /// Show what SLOs at risk cost whom: who was stopped for them, who waited, what that is worth
    Costs(BrokerFlags),
    /// Take an SLO back
    Remove(Remove),
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A lease such as L-42, or a tenant
    #[arg(value_name = "TENANT|LEASE")]
    target: String,
    /// Time to first token, such as p95:1s: 95 % of requests within 1 s
    #[arg(long, value_name = "TARGET")]
    ttft: Option<String>,
    /// Time per output token after the first, such as p95:40ms
    #[arg(long, value_name = "TARGET")]
    tpot: Option<String>,
    /// Share of requests that meet all latency targets at once, such as 99%
    #[arg(long, value_name = "SHARE")]
    goodput: Option<String>,
    /// From request to active, such as p95:10min
    #[arg(long, value_name = "TARGET")]
    time_to_lease: Option<String>,
    /// Share of leases that last as long as promised, such as 99%
    #[arg(long, value_name = "SHARE")]
    survival: Option<String>,
    /// A metric that the tenant reports, such as 'accuracy>=0.9:99%'; repeat
    #[arg(long, value_name = "METRIC>=BOUND:SHARE")]
    quality: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Show {
    #[command(flatten)]
    broker: BrokerFlags,
    /// One alone, such as S-1 [default: all]
    #[arg(value_name = "SLO")]
    slo: Option<String>,
}

#[derive(Debug, Args)]
pub struct Remove {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Which, such as S-1
    #[arg(value_name = "SLO")]
    slo: String,
}

fn path(slo: &str) -> anyhow::Result<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if slo.is_empty() || !slo.bytes().all(plain) {
        let what = format!("{slo:?} is no SLO; expected one such as S-1");
        return Err(Problem::new(what)
            .hint("`gpuwise slo show` lists them")
            .into());
    }
    Ok(format!("/v1/slos/{slo}"))
}

fn costs(list: &SloCostList) -> Table {
    let mut table = Table::new(vec![
        Column::left("lease", "For"),
        Column::left("bearer", "Borne by"),
        Column::right("stops", "Stops"),
        Column::right("gpu_hours", "GPU-hours"),
        Column::right("worth", "Worth"),
        Column::right("passed", "Passed"),
        Column::right("waited_s", "Waited").unit("min"),
    ]);
    for one in &list.items {
        let number = |value: f64| Cell::new(format!("{value:.2}"), value.to_string());
        table.push(vec![
            Cell::text(one.lease.clone()),
            Cell::text(one.bearer.clone()),
            Cell::text(one.stops.to_string()),
            number(one.gpu_hours),
            Cell::of(one.worth.as_deref(), money),
            Cell::text(one.passed.to_string()),
            Cell::new(
                format!("{:.1}", one.waited_s / 60.0),
                one.waited_s.to_string(),
            ),
        ]);
    }
    table
        .footnote("of the time that it waited since it was passed, so much at most is the other's");
    table
}

pub fn run(context: &Context, command: &SloCommand) -> anyhow::Result<Exit> {
    match command {
        SloCommand::Set(flags) => {
            let ask = SloAsk {
                target: flags.target.clone(),
                ttft: flags.ttft.clone(),
                tpot: flags.tpot.clone(),
                goodput: flags.goodput.clone(),
                time_to_lease: flags.time_to_lease.clone(),
                survival: flags.survival.clone(),
                quality: flags.quality.clone(),
            };
            let client = flags.broker.client(context.app.offline)?;
            let slo: SloAnswer = client.post("/v1/slos", None, &ask)?;
            let list = SloList { items: vec![slo] };
            shown(context, &list, || table(&list.items))
        }
        SloCommand::Show(flags) => {
            let client = flags.broker.client(context.app.offline)?;
            let list = match &flags.slo {
                None => client.get("/v1/slos")?,
                Some(slo) => SloList {
                    items: vec![client.get(&path(slo)?)?],
                },
            };
            shown(context, &list, || table(&list.items))?;
            let mut objectives = list.items.iter().flat_map(|slo| &slo.objectives);
            Ok(if objectives.all(|one| one.alert == "ok") {
                Exit::Yes
            } else {
                Exit::No
            })
        }
        SloCommand::Costs(flags) => {
            let context = context.answering(AnswerName::SloCosts);
            let client = flags.client(context.app.offline)?;
            let list: SloCostList = client.get("/v1/slos:costs")?;
            shown(&context, &list, || costs(&list))
        }
        SloCommand::Rules(flags) => {
            let client = flags.client(context.app.offline)?;
            context.data(&client.text("/v1/slos:rules")?)?;
            Ok(Exit::Yes)
        }
        SloCommand::Remove(flags) => {
            let client = flags.broker.client(context.app.offline)?;
            client.delete(&path(&flags.slo)?)?;
            Ok(Exit::Yes)
        }
    }
}

fn table(slos: &[SloAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("slo", "SLO"),
        Column::left("of", "Of"),
        Column::left("indicator", "Indicator"),
        Column::left("target", "Target"),
        Column::right("objective", "Objective").unit("%"),
        Column::right("good", "Good").unit("%"),
        Column::right("events", "Events").priority(2),
        Column::right("budget_left", "Budget left").unit("%"),
        Column::right("burn_1h", "Burn 1 h").priority(1),
        Column::right("burn_3d", "3 d").priority(3),
        Column::left("alert", "Alert"),
    ]);
    let percent = |share: f64| Cell::new(format!("{}", round(share * 100.0, 3)), share);
    for slo in slos {
        for one in &slo.objectives {
            let burn = |window: &str| {
                let burn = one.burn.iter().find(|burn| burn.window == window);
                Cell::of(burn, |burn| {
                    Cell::new(format!("{:.1}", burn.long), burn.long)
                })
            };
            table.push(vec![
                Cell::text(slo.id.clone()),
                Cell::text(slo.lease.clone().unwrap_or_else(|| slo.tenant.clone())),
                Cell::text(one.indicator.replace('_', " ")),
                Cell::text(one.target.clone()),
                percent(one.objective),
                Cell::of(one.good, percent),
                Cell::count(one.events),
                Cell::new(format!("{:.0}", one.budget_left * 100.0), one.budget_left),
                burn("1h"),
                burn("3d"),
                Cell::text(one.alert.clone()),
            ]);
        }
    }
    table.footnote(
        "error budgets of 30 days; burn: how many times faster than allowed errors come; an alert needs both \
         its windows",
    );
    table
}

fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}
