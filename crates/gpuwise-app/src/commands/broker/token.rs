//! `gpuwise token`: who may ask the broker.

use super::client::{BrokerFlags, moment, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    progress,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{AuditList, Role, TokenAnswer, TokenAsk, TokenList};

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token, which is said this once
    Create(Create),
    /// List tokens: names, roles, ends
    List(BrokerFlags),
    /// Make a token useless
    Revoke(Revoke),
    /// Say who did what by which token, the newest first
    Audit(Audit),
}

#[derive(Debug, Args)]
pub struct Create {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// administrator, operator, tenant-admin, member or auditor
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Role,
    /// The tenant that it is for; tenant admins and members have one
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// For how long it is valid, such as 30d [default: until it is revoked]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
}

#[derive(Debug, Args)]
pub struct Revoke {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// The tenant that it is for
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

#[derive(Debug, Args)]
pub struct Audit {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Only what this token's name asked for
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

fn audit(context: &Context, flags: &Audit) -> anyhow::Result<Exit> {
    let mut path = format!("/v1/audit?limit={}", flags.limit);
    if let Some(by) = &flags.by {
        let plain = by
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !plain {
            return Err(Problem::new(format!("--by {by:?} is no name of a token")).into());
        }
        path.extend(["&by=", by]);
    }
    let list: AuditList = flags.broker.client(context.app.offline)?.get(&path)?;
    shown(&context.answering(AnswerName::TokenAudit), &list, || {
        let mut table = Table::new(vec![
            Column::left("at", "At"),
            Column::left("by", "By"),
            Column::left("what", "What"),
            Column::left("subject", "Subject"),
            Column::left("tenant", "Tenant"),
        ]);
        for one in &list.items {
            table.push(vec![
                moment(&one.at),
                Cell::of(one.by.clone(), Cell::text),
                Cell::text(one.what.clone()),
                Cell::text(one.subject.clone()),
                Cell::of(one.tenant.clone(), Cell::text),
            ]);
        }
        table
    })
}

fn role(text: &str) -> Result<Role, String> {
    let names = Role::ALL.map(Role::name).join(", ");
    let found = Role::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

pub fn run(context: &Context, command: &TokenCommand) -> anyhow::Result<Exit> {
    match command {
        TokenCommand::Audit(flags) => audit(context, flags),
        TokenCommand::Create(flags) => {
            let ask = TokenAsk {
                name: flags.name.clone(),
                role: flags.role,
                tenant: flags.tenant.clone(),
                length: flags.length.clone(),
            };
            let client = flags.broker.client(context.app.offline)?;
            let made: TokenAnswer = client.post("/v1/tokens", None, &ask)?;
            progress::say("It is said this once: keep it where only its user reads it.");
            let context = context.answering(AnswerName::Token);
            shown(&context, &made, || table(std::slice::from_ref(&made)))
        }
        TokenCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            let list: TokenList = client.get("/v1/tokens")?;
            shown(&context.answering(AnswerName::Tokens), &list, || {
                table(&list.items)
            })
        }
        TokenCommand::Revoke(flags) => {
            let client = flags.broker.client(context.app.offline)?;
            if flags.name.contains(['/', '?', '#']) {
                return Err(Problem::new(format!("there is no token {:?}", flags.name)).into());
            }
            let tenant = flags.tenant.as_ref();
            let tenant = tenant.map_or_else(String::new, |tenant| format!("?tenant={tenant}"));
            client.delete(&format!("/v1/tokens/{}{tenant}", flags.name))?;
            progress::say(&format!("Token {} is revoked.", flags.name));
            Ok(Exit::Yes)
        }
    }
}

fn table(tokens: &[TokenAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "Name"),
        Column::left("role", "Role"),
        Column::left("tenant", "Tenant"),
        Column::left("expires_at", "Expires"),
        Column::left("token", "Token"),
    ]);
    for one in tokens {
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::text(one.role.name()),
            Cell::of(one.tenant.clone(), Cell::text),
            Cell::of(one.expires_at.as_deref(), moment),
            Cell::of(one.token.clone(), Cell::text),
        ]);
    }
    table
}
