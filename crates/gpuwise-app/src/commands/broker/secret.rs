//! `gpuwise secret`: values that leases of a tenant get and that no answer shows.

use super::client::{BrokerFlags, moment, shown};
use crate::{
    app::{Context, Exit},
    error::Problem,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{SecretAnswer, SecretAsk, SecretList};
use std::{
    fs,
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
};

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Set a secret of a tenant, from standard input or a file
    ///
    /// `lease request --secret NAME` puts it into the environment of a command. Its value is in a file that the
    /// broker's account alone can read: not in the log, in no answer and in no message.
    Set(Set),
    /// List secrets, but for their values
    List(BrokerFlags),
    /// Remove a secret; what runs keeps what it was given
    Remove(Named),
}

#[derive(Debug, Args)]
pub struct Named {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// The tenant that it belongs to
    #[arg(long, value_name = "NAME")]
    tenant: String,
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    named: Named,
    /// The file that has it [default: standard input]; a line break at its end is not part of it
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
}

impl Named {
    fn path(&self) -> anyhow::Result<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        for name in [&self.name, &self.tenant] {
            if name.is_empty() || !name.bytes().all(plain) {
                let what = format!("{name:?} cannot be a name");
                return Err(Problem::new(what).into());
            }
        }
        Ok(format!("/v1/tenants/{}/secrets/{}", self.tenant, self.name))
    }
}

impl Set {
    fn value(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let read = match &self.from_file {
            Some(path) => fs::read_to_string(path).map(|read| text = read),
            None if io::stdin().is_terminal() => {
                let hint = "gpuwise secret set hf-token --tenant vision <token.txt";
                let what = "a secret comes from standard input or --from-file, so that no terminal shows it";
                return Err(Problem::new(what).hint(hint).into());
            }
            None => io::stdin().read_to_string(&mut text).map(|_| ()),
        };
        read.map_err(|error| {
            let from = self.from_file.as_ref();
            let from = from.map_or_else(
                || "standard input".into(),
                |path| path.display().to_string(),
            );
            Problem::new(format!("the secret cannot be read from {from}")).because(error)
        })?;
        let end = text.strip_suffix('\n').unwrap_or(&text);
        Ok(end.strip_suffix('\r').unwrap_or(end).to_owned())
    }
}

pub fn run(context: &Context, command: &SecretCommand) -> anyhow::Result<Exit> {
    let flags = match command {
        SecretCommand::List(flags) => flags,
        SecretCommand::Set(flags) => {
            let ask = SecretAsk {
                secret: flags.value()?,
            };
            let client = flags.named.broker.client(context.app.offline)?;
            client.put_nothing(&flags.named.path()?, &ask)?;
            &flags.named.broker
        }
        SecretCommand::Remove(named) => {
            let client = named.broker.client(context.app.offline)?;
            client.delete(&named.path()?)?;
            &named.broker
        }
    };
    let list: SecretList = flags.client(context.app.offline)?.get("/v1/secrets")?;
    let context = context.answering(AnswerName::Secrets);
    shown(&context, &list, || table(&list.items))
}

fn table(items: &[SecretAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "Secret"),
        Column::left("tenant", "Tenant"),
        Column::left("set_at", "Set"),
    ]);
    for one in items {
        table.push(vec![
            Cell::text(one.name.clone()),
            Cell::text(one.tenant.clone()),
            moment(&one.set_at),
        ]);
    }
    table
}
