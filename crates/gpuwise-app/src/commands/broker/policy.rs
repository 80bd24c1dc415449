//! `gpuwise policy`: by what a broker's scheduler goes, shown and set.

use super::client::{BrokerFlags, moment, shown};
use crate::{
    app::{Context, Exit},
    policy::{Rules, read},
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_broker::{Broker, Refusal};
use gpuwise_domain::placement::{Fleet, Queue};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::{
    PolicyFile,
    broker::{PolicyAnswer, PolicyDocument},
};
use std::{collections::BTreeMap, path::PathBuf};

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show by what the scheduler goes, and since when
    Show(BrokerFlags),
    /// Let the scheduler go by a policy file from now on
    ///
    /// The log keeps it, with who set it; a broker that starts again goes by it, unless `gpuwise serve` is
    /// told another. What the file leaves out of order, backfill and shares is as the fleet file said when the
    /// log began; queues that it does not name stay as they are.
    Set(Set),
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A policy file, as `gpuwise example policy.toml` prints one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only where the policy that holds is still of this version, as `policy show` says it
    #[arg(long, value_name = "N")]
    version: Option<u32>,
}

pub fn run(context: &Context, command: &PolicyCommand) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::BrokerPolicy);
    let answer: PolicyAnswer = match command {
        PolicyCommand::Show(flags) => {
            let client = flags.client(context.app.offline)?;
            client.get("/v1/policies")?
        }
        PolicyCommand::Set(flags) => {
            let file = read(&flags.file)?;
            // What is wrong with it is said before anybody is asked.
            Rules::of_file(file.clone(), None, None, None)?;
            let client = flags.broker.client(context.app.offline)?;
            client.put_at(
                "/v1/policies",
                flags.version,
                &file,
                |seen: &PolicyAnswer| seen.version,
            )?
        }
    };
    shown(&context, &answer, || table(&answer))
}

fn table(answer: &PolicyAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("setting", "Setting"),
        Column::left("value", "Value"),
    ]);
    let mut row = |name: &str, value: Cell| table.push(vec![Cell::text(name), value]);
    row("version", Cell::text(answer.version.to_string()));
    row("since", moment(&answer.since));
    let policy = &answer.policy;
    row("nodes", Cell::text(policy.selector.clone()));
    let scheduling = serde_json::to_value(&policy.scheduling).unwrap_or_default();
    let sharing = serde_json::to_value(&policy.sharing).unwrap_or_default();
    let file = serde_json::to_value(&policy.file).unwrap_or_default();
    let all = [
        flat("", &scheduling),
        flat("sharing", &sharing),
        flat("", &file),
    ];
    // What the file says of turns is what holds of them.
    let all: BTreeMap<String, String> = all.into_iter().flatten().collect();
    for (name, value) in all {
        row(&name, Cell::text(value));
    }
    if policy.file.is_none() {
        row("preempt", Cell::text(policy.preempt.to_string()));
    }
    table
}

/// What a document says, by dotted names.
fn flat(name: &str, value: &serde_json::Value) -> Vec<(String, String)> {
    use serde_json::Value;
    let under = |key: &str| {
        if name.is_empty() {
            key.to_owned()
        } else {
            format!("{name}.{key}")
        }
    };
    match value {
        Value::Null => Vec::new(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "nodes" | "schema"))
            .flat_map(|(key, value)| flat(&under(key), value))
            .collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .flat_map(|(place, item): (usize, _)| {
                let own = item["name"].as_str();
                let key = own.map_or_else(|| place.to_string(), str::to_owned);
                flat(&under(&key), item)
            })
            .collect(),
        Value::String(text) => vec![(name.to_owned(), text.clone())],
        other => vec![(name.to_owned(), other.to_string())],
    }
}

/// A policy file as the log keeps it, and the queues of which it says something, as they are to be.
///
/// # Errors
/// When something that it says cannot be.
pub(super) fn of_file(
    broker: &Broker,
    file: PolicyFile,
) -> Result<(PolicyDocument, Vec<Queue>), Refusal> {
    let invalid = |error: anyhow::Error| {
        let problem = error.to_string();
        let problem = problem.strip_prefix("policy: ").unwrap_or(&problem);
        super::desk::invalid("policy", problem)
    };
    let rules = Rules::of_file(file, None, None, None).map_err(invalid)?;
    let given = broker.given();
    let mut fleet = Fleet {
        kinds: broker.world().kinds().to_vec(),
        queues: broker.world().queues().to_vec(),
        scheduling: given.scheduling,
        sharing: given.sharing,
        ..Fleet::default()
    };
    rules.shape(&mut fleet).map_err(invalid)?;
    let named = |queue: &Queue| rules.file.queue.iter().any(|one| one.name == queue.name);
    let document = rules.document(&fleet);
    let queues = fleet.queues.into_iter().filter(named).collect();
    Ok((document, queues))
}
