//! `gpuwise proposal`: other sizes that telemetry says are right.

use super::client::{BrokerFlags, moment, money, shown};
use crate::{
    app::{Context, Exit, Format},
    error::Problem,
};
use clap::{Args, Subcommand};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{ProposalAnswer, ProposalDecision, ProposalList};
use std::fmt::Write as _;

#[derive(Debug, Subcommand)]
pub enum ProposalCommand {
    /// List proposals, the newest first
    List(BrokerFlags),
    /// Show a proposal, each of its steps with its reason
    Show(One),
    /// Accept a proposal: the new size starts beside, takes over, and is proven
    Accept(Decide),
    /// Reject a proposal
    Reject(Decide),
}

#[derive(Debug, Args)]
pub struct One {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Which, such as P-1
    #[arg(value_name = "PROPOSAL")]
    proposal: String,
}

#[derive(Debug, Args)]
pub struct Decide {
    #[command(flatten)]
    one: One,
    /// Why, for those who look at it later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl One {
    fn path(&self) -> anyhow::Result<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if self.proposal.is_empty() || !self.proposal.bytes().all(plain) {
            let what = format!(
                "{:?} is no proposal; expected one such as P-1",
                self.proposal
            );
            return Err(Problem::new(what)
                .hint("`gpuwise proposal list` shows them")
                .into());
        }
        Ok(format!("/v1/proposals/{}", self.proposal))
    }
}

pub fn run(context: &Context, command: &ProposalCommand) -> anyhow::Result<Exit> {
    match command {
        ProposalCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            let list: ProposalList = client.get("/v1/proposals")?;
            shown(context, &list, || table(&list.items))
        }
        ProposalCommand::Show(flags) => {
            let client = flags.broker.client(context.app.offline)?;
            show(context, client.get(&flags.path()?)?)
        }
        ProposalCommand::Accept(flags) => decide(context, flags, "accept"),
        ProposalCommand::Reject(flags) => decide(context, flags, "reject"),
    }
}

fn decide(context: &Context, flags: &Decide, decision: &str) -> anyhow::Result<Exit> {
    let client = flags.one.broker.client(context.app.offline)?;
    let ask = ProposalDecision {
        decision: decision.into(),
        reason: flags.reason.clone(),
    };
    let path = flags.one.path()?;
    show(context, client.post(&path, None, &ask)?)
}

fn table(proposals: &[ProposalAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("proposal", "Proposal"),
        Column::left("tenant", "Tenant").priority(3),
        Column::left("lease", "Lease"),
        Column::left("before", "Runs").wrap(24),
        Column::left("after", "Proposed").wrap(24),
        Column::right("per_hour", "Saves /h"),
        Column::left("state", "State"),
        Column::left("since", "Since").priority(1),
        Column::right("saved", "Saved").priority(2),
    ]);
    for one in proposals {
        table.push(vec![
            Cell::text(one.id.clone()),
            Cell::text(one.tenant.clone()),
            Cell::text(one.lease.clone()),
            Cell::text(one.before.clone()),
            Cell::text(one.after.clone()),
            Cell::of(one.saving.per_hour.as_deref(), money),
            Cell::text(one.state.name().to_owned()),
            moment(&one.since),
            Cell::of(one.saved.as_deref(), money),
        ]);
    }
    table
}

fn show(context: &Context, one: ProposalAnswer) -> anyhow::Result<Exit> {
    let list = ProposalList { items: vec![one] };
    if context.form.format != Format::Table {
        return shown(context, &list, || table(&list.items));
    }
    let Some(one) = list.items.first() else {
        return Ok(Exit::Yes);
    };
    let mut text = format!("{}  {}: {}\n", one.id, one.state.name(), one.reason);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<10}{value}");
        }
    };
    line("lease", &one.lease);
    line("runs", &one.before);
    line("proposed", &one.after);
    line("because", &one.because);
    let saving = &one.saving;
    if let (Some(hour), Some(low), Some(expected), Some(high)) = (
        &saving.per_hour,
        &saving.low,
        &saving.expected,
        &saving.high,
    ) {
        line("saves", &format!("{hour} an hour"));
        line("", &format!("{expected} over the proof ({low} to {high})"));
    }
    line("saved", one.saved.as_deref().unwrap_or_default());
    line("successor", one.successor.as_deref().unwrap_or_default());
    for step in &one.steps {
        let at = step
            .at
            .split_once('.')
            .map_or(step.at.as_str(), |(short, _)| short);
        line(
            "",
            &format!(
                "{} {}: {}",
                at.replace('T', " "),
                step.state.name(),
                step.reason
            ),
        );
    }
    context.data(&text)?;
    Ok(Exit::Yes)
}
