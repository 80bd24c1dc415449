//! `gpuwise tenant`: who leases and pays.

use super::client::{BrokerFlags, money, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{QuotaAsk, TenantAnswer, TenantAsk, TenantChange, TenantList};

#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Create a tenant
    Create(Create),
    /// Change a tenant: what is not named stays
    Set(Set),
    /// List tenants, their quotas, budgets and what is spent of them
    List(BrokerFlags),
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Money for a calendar month, such as 20000usd/month; leases are refused that could spend more
    #[arg(long, value_name = "MONEY")]
    budget: Option<String>,
    /// Nominal quota, such as 16xH100, or 16 of any kind; repeat, or separate by commas
    #[arg(long, value_name = "GPUS", value_delimiter = ',')]
    quota: Vec<String>,
    /// Borrowing limit beyond each quota, in GPUs [default: no limit]
    #[arg(long, value_name = "N")]
    borrow: Option<f64>,
    /// Lending limit of each quota, in GPUs [default: no limit]
    #[arg(long, value_name = "N")]
    lend: Option<f64>,
    /// Weight when what is left over is shared
    #[arg(long, value_name = "N")]
    weight: Option<f64>,
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Money for a calendar month, such as 20000usd/month; none: no limit any more
    #[arg(long, value_name = "MONEY")]
    budget: Option<String>,
    /// Nominal quota in place of those before, such as 16xH100; none: no limit of its own
    #[arg(long, value_name = "GPUS", value_delimiter = ',')]
    quota: Vec<String>,
    /// Borrowing limit beyond each quota, in GPUs [default: no limit]
    #[arg(long, value_name = "N", requires = "quota")]
    borrow: Option<f64>,
    /// Lending limit of each quota, in GPUs [default: no limit]
    #[arg(long, value_name = "N", requires = "quota")]
    lend: Option<f64>,
    /// Weight when what is left over is shared
    #[arg(long, value_name = "N")]
    weight: Option<f64>,
    /// Refuse new leases; those that run go on
    #[arg(long, conflicts_with = "resume")]
    suspend: bool,
    /// Take new leases again
    #[arg(long)]
    resume: bool,
}

pub fn run(context: &Context, command: &TenantCommand) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::Tenants);
    match command {
        TenantCommand::Create(flags) => create(&context, flags),
        TenantCommand::Set(flags) => set(&context, flags),
        TenantCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            let list: TenantList = client.get("/v1/tenants")?;
            shown(&context, &list, || table(&list.items))
        }
    }
}

fn create(context: &Context, flags: &Create) -> anyhow::Result<Exit> {
    if flags.quota.is_empty() && (flags.borrow.is_some() || flags.lend.is_some()) {
        return Err(Problem::new("--borrow and --lend are of a quota")
            .hint("add --quota")
            .into());
    }
    let ask = TenantAsk {
        name: flags.name.clone(),
        budget: flags.budget.clone(),
        quota: flags
            .quota
            .iter()
            .map(|gpus| QuotaAsk {
                gpus: gpus.clone(),
                borrow: flags.borrow,
                lend: flags.lend,
            })
            .collect(),
        weight: flags.weight,
    };
    let client = flags.broker.client(context.app.offline)?;
    let made: TenantAnswer = client.post("/v1/tenants", None, &ask)?;
    shown(&context.answering(AnswerName::Tenant), &made, || {
        table(std::slice::from_ref(&made))
    })
}

fn set(context: &Context, flags: &Set) -> anyhow::Result<Exit> {
    let quota = |gpus: &String| QuotaAsk {
        gpus: gpus.clone(),
        borrow: flags.borrow,
        lend: flags.lend,
    };
    let named = !flags.quota.is_empty();
    let some = flags.quota.iter().filter(|gpus| *gpus != "none");
    let change = TenantChange {
        budget: flags.budget.clone(),
        quota: named.then(|| some.map(quota).collect()),
        weight: flags.weight,
        suspended: (flags.suspend || flags.resume).then_some(flags.suspend),
    };
    if change == TenantChange::default() {
        return Err(Problem::new("nothing is to be changed")
            .hint("give --budget, --quota, --weight, --suspend or --resume")
            .into());
    }
    let plain = |name: &str| !name.is_empty() && !name.contains(['/', '?', '#', '%', ' ']);
    if !plain(&flags.name) {
        return Err(Problem::new(format!("there is no tenant {:?}", flags.name)).into());
    }
    let client = flags.broker.client(context.app.offline)?;
    let set: TenantAnswer = client.patch(&format!("/v1/tenants/{}", flags.name), &change)?;
    shown(&context.answering(AnswerName::Tenant), &set, || {
        table(std::slice::from_ref(&set))
    })
}

fn table(tenants: &[TenantAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant", "Tenant"),
        Column::left("quota", "Quota"),
        Column::right("weight", "Weight"),
        Column::right("gpus", "GPUs"),
        Column::right("leases", "Leases"),
        Column::right("budget", "Budget").unit("/month"),
        Column::right("spent", "Spent"),
        Column::right("reserved", "Reserved"),
    ]);
    for one in tenants {
        let quota: Vec<&str> = one.quota.iter().map(|quota| quota.gpus.as_str()).collect();
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::of(Some(quota).filter(|quota| !quota.is_empty()), |quota| {
                Cell::text(quota.join(", "))
            }),
            Cell::number(one.weight),
            Cell::number(one.gpus),
            Cell::number(f64::from(one.leases)),
            Cell::of(one.budget.clone(), Cell::text),
            Cell::of(one.spent.as_deref(), money),
            Cell::of(one.reserved.as_deref(), money),
        ]);
    }
    for one in tenants {
        if let Some(account) = &one.account {
            table.footnote(format!("{}: {}.", one.name, account.words()));
        }
    }
    for one in tenants.iter().filter(|one| one.suspended) {
        let name = &one.name;
        table.footnote(format!("{name} is suspended: it may ask for nothing new."));
    }
    table
}
