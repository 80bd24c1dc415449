//! `gpuwise node`: nodes of a broker's fleet: added, cordoned, drained, removed, and told anew by a fleet file.

use super::client::{BrokerFlags, Client, shown};
use crate::{
    app::{Context, Exit},
    catalogue,
    error::Problem,
    fleet, progress,
    schemas::AnswerName,
};
use clap::{Args, Subcommand};
use gpuwise_domain::placement::{Fleet, FleetGpu, GpuId, Home, NodeId};
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::{
    Mirror as _,
    broker::{FleetAnswer, FleetChange, FleetChangeList, GpuAnswer, NodeAnswer, NodeAsk, NodeVerb},
    live::FleetDocument,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List nodes, their health, and the leases on them
    List(BrokerFlags),
    /// Let a node join: with so many GPUs of a kind, or as a fleet file has it
    Add(Box<Add>),
    /// Place nothing new on a node, and let what runs there run
    ///
    /// It stays so over restarts and whatever Slurm or Kubernetes says of the node, until `gpuwise node uncordon`.
    Cordon(Named),
    /// Let a node take new leases again
    Uncordon(Named),
    /// Cordon a node, and free it
    ///
    /// Leases there that may be preempted are, and start elsewhere; the others run until they end, or are told to end
    /// by --end.
    Drain(Drain),
    /// Say that a node is off, or cut from its network and storage
    ///
    /// What it ran has ended then, and may start elsewhere. A node that only does not answer keeps its leases, as what
    /// runs there may run on.
    Fence(Named),
    /// Take a node that holds nothing out of the fleet
    Remove(Named),
    /// Compare a fleet file with the fleet, and with --yes let the fleet be so
    ///
    /// The file is compared with the one that the broker took over last, so that what commands changed since stays as
    /// it is. Nodes join, change and leave, and prices hold from now on; what cannot be is refused by name, with what
    /// to do, and is told again the next time. `gpuwise serve --fleet` does the same when it starts.
    Reload(Reload),
}

#[derive(Debug, Args)]
pub struct Named {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A node, as `gpuwise node list` names it
    #[arg(value_name = "NODE")]
    node: String,
}

#[derive(Debug, Args)]
pub struct Drain {
    #[command(flatten)]
    named: Named,
    /// Tell leases that may not be preempted to end
    #[arg(long)]
    end: bool,
}

#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Its name; with --gpus several as in a fleet file, such as n{3..8}
    #[arg(value_name = "NODE")]
    node: String,
    /// Its GPUs, such as 8xH100
    #[arg(
        long,
        value_name = "NxGPU",
        required_unless_present = "fleet",
        conflicts_with = "fleet"
    )]
    gpus: Option<String>,
    /// Cores [default: not known]
    #[arg(long, value_name = "N", conflicts_with = "fleet")]
    cpu: Option<f64>,
    /// Memory, such as 1TiB [default: not known]
    #[arg(long, value_name = "SIZE", conflicts_with = "fleet")]
    memory: Option<String>,
    /// The rack that it is in
    #[arg(long, value_name = "RACK", conflicts_with = "fleet")]
    rack: Option<String>,
    /// MIG is on, and nothing is cut yet
    #[arg(long, conflicts_with = "fleet")]
    mig: bool,
    /// As this fleet file has it
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// A key under which a repeated request is done once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    broker: BrokerFlags,
    /// A fleet file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Let the fleet be so; else the differences are shown, and nothing changes
    #[arg(long)]
    yes: bool,
}

pub fn run(context: &Context, command: &NodeCommand) -> anyhow::Result<Exit> {
    match command {
        NodeCommand::List(flags) => {
            let client = flags.client(context.app.offline)?;
            let fleet: FleetAnswer = client.get("/v1/fleet")?;
            let context = context.answering(AnswerName::Nodes);
            shown(&context, &fleet, || nodes(&fleet.nodes))
        }
        NodeCommand::Add(flags) => {
            let client = flags.broker.client(context.app.offline)?;
            let file = FleetDocument::of(&added(context, flags, &client)?);
            let list: FleetChangeList = client.post("/v1/nodes", flags.key.as_deref(), &file)?;
            changed(
                context,
                &list,
                "It was asked for under this key before, and is done.",
            )
        }
        NodeCommand::Cordon(named) => tell(context, named, NodeVerb::Cordon, false),
        NodeCommand::Uncordon(named) => tell(context, named, NodeVerb::Uncordon, false),
        NodeCommand::Drain(flags) => tell(context, &flags.named, NodeVerb::Drain, flags.end),
        NodeCommand::Fence(named) => tell(context, named, NodeVerb::Fence, false),
        NodeCommand::Remove(named) => {
            let client = named.broker.client(context.app.offline)?;
            client.delete(&path(&named.node)?)?;
            let fleet: FleetAnswer = client.get("/v1/fleet")?;
            let context = context.answering(AnswerName::Nodes);
            shown(&context, &fleet, || nodes(&fleet.nodes))
        }
        NodeCommand::Reload(flags) => {
            let loaded = catalogue::load(&context.app.overrides)?;
            let read = fleet::read(&flags.file, &loaded.catalogue)?;
            if !read.present.is_empty() {
                progress::say(
                    "MIG instances that the file has are made where a log begins: nodes that join have MIG on, and \
                     nothing is cut.",
                );
            }
            let file = FleetDocument::of(&read.fleet);
            let client = flags.broker.client(context.app.offline)?;
            let list: FleetChangeList = if flags.yes {
                client.put("/v1/fleet", &file)?
            } else {
                client.post("/v1/fleet:compare", None, &file)?
            };
            changed(context, &list, "The fleet is as the file says.")
        }
    }
}

/// The address of a node: what is no letter of an address stands there as `%` and its code.
fn path(node: &str) -> anyhow::Result<String> {
    if matches!(node, "" | "." | "..") {
        let hint = "`gpuwise node list` lists them";
        return Err(Problem::new(format!("{node:?} is no node"))
            .hint(hint)
            .into());
    }
    let letter = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    let coded: String = node.bytes().map(letter).collect();
    Ok(format!("/v1/nodes/{coded}"))
}

fn tell(context: &Context, named: &Named, verb: NodeVerb, end: bool) -> anyhow::Result<Exit> {
    let client = named.broker.client(context.app.offline)?;
    let node: NodeAnswer = client.post(&path(&named.node)?, None, &NodeAsk { verb, end })?;
    let left: BTreeSet<&str> = leases(&node.gpus);
    if matches!(verb, NodeVerb::Drain | NodeVerb::Cordon) && !left.is_empty() {
        progress::say(&format!(
            "{} on it for now: {}.",
            match left.len() {
                1 => "One lease is".to_owned(),
                count => format!("{count} leases are"),
            },
            left.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    if verb == NodeVerb::Uncordon && node.health != "up" {
        progress::say(&format!(
            "It is {} all the same: Slurm, Kubernetes or the fleet file says so.",
            node.health
        ));
    }
    let fleet: FleetAnswer = client.get("/v1/fleet")?;
    let fleet = FleetAnswer {
        nodes: vec![node],
        pools: Vec::new(),
        ..fleet
    };
    let context = context.answering(AnswerName::Nodes);
    shown(&context, &fleet, || nodes(&fleet.nodes))
}

/// The nodes that are to join, as a fleet file has them.
fn added(context: &Context, flags: &Add, client: &Client) -> anyhow::Result<Fleet> {
    let loaded = catalogue::load(&context.app.overrides)?;
    if let Some(path) = &flags.fleet {
        let mut fleet = fleet::read(path, &loaded.catalogue)?.fleet;
        let all: Vec<String> = fleet.nodes.iter().map(|node| node.name.clone()).collect();
        fleet.nodes.retain(|node| node.name == flags.node);
        let Some(node) = fleet.nodes.first_mut() else {
            let what = format!("{} has no node {:?}", path.display(), flags.node);
            let known = all.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            let more = if all.len() > 8 { ", …" } else { "" };
            return Err(Problem::new(what)
                .hint(format!("it has {known}{more}"))
                .into());
        };
        // Its GPUs alone, by their new numbers.
        let own = node
            .gpus
            .iter()
            .filter_map(|id| fleet.gpus.get(id.index()).cloned());
        let own: Vec<FleetGpu> = own
            .map(|gpu| FleetGpu {
                home: Home::Node(NodeId(0)),
                ..gpu
            })
            .collect();
        node.gpus = (0..).map(GpuId).take(own.len()).collect();
        fleet.gpus = own;
        return Ok(fleet);
    }
    let gpus = flags.gpus.clone().unwrap_or_default();
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut lines: Vec<String> = Vec::new();
    // A kind that the fleet has is as the fleet knows it, also where the catalogue does not.
    let kind = gpus.split_once('x').map_or(gpus.as_str(), |(_, kind)| kind);
    let there: FleetAnswer = client.get("/v1/fleet")?;
    let all = there.nodes.iter().flat_map(|node| &node.gpus);
    if all.map(|gpu| &gpu.gpu).any(|known| *known == kind) {
        lines.extend(["[[gpu_kind]]".to_owned(), format!("name = {}", text(kind))]);
    }
    lines.push("[[node]]".into());
    let mut line = |name: &str, value: String| lines.push(format!("{name} = {value}"));
    line("name", text(&flags.node));
    line("gpus", text(&gpus));
    if let Some(cpu) = flags.cpu {
        line("cpu", cpu.to_string());
    }
    if let Some(memory) = &flags.memory {
        line("memory", text(memory));
    }
    if let Some(rack) = &flags.rack {
        line("rack", text(rack));
    }
    if flags.mig {
        line("mig", true.to_string());
    }
    let read = fleet::of_text("node add", &lines.join("\n"), &loaded.catalogue)?;
    Ok(read.fleet)
}

fn changed(context: &Context, list: &FleetChangeList, none: &str) -> anyhow::Result<Exit> {
    let refused = list.items.iter().any(|one| one.refused.is_some());
    let applies = list.items.iter().any(|one| one.refused.is_none());
    if list.items.is_empty() {
        progress::say(none);
    } else if applies && !list.applied {
        progress::say("Nothing is changed: --yes lets the fleet be so.");
    }
    let context = context.answering(AnswerName::FleetChanges);
    shown(&context, list, || changes(&list.items))?;
    Ok(if refused { Exit::No } else { Exit::Yes })
}

fn changes(items: &[FleetChange]) -> Table {
    let mut table = Table::new(vec![
        Column::left("change", "Change"),
        Column::left("part", "What"),
        Column::left("name", "Name"),
        Column::left("detail", "Detail"),
        Column::left("refused", "Refused"),
    ]);
    for one in items {
        table.push(vec![
            Cell::text(one.change.name()),
            Cell::text(one.part.name()),
            Cell::text(one.name.clone()),
            Cell::text(one.detail.clone().unwrap_or_default()),
            Cell::text(one.refused.clone().unwrap_or_default()),
        ]);
    }
    table
}

fn leases(gpus: &[GpuAnswer]) -> BTreeSet<&str> {
    let holders = gpus.iter().flat_map(|gpu| &gpu.holders);
    holders.map(|holder| holder.lease.as_str()).collect()
}

fn nodes(items: &[NodeAnswer]) -> Table {
    let mut table = Table::new(vec![
        Column::left("name", "Node"),
        Column::left("health", "Health"),
        Column::left("gpus", "GPUs"),
        Column::right("held", "Held"),
        Column::left("leases", "Leases"),
    ]);
    for node in items {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for gpu in &node.gpus {
            *kinds.entry(&gpu.gpu).or_default() += 1;
        }
        let kinds: Vec<String> = (kinds.iter())
            .map(|(kind, count)| format!("{count}x{kind}"))
            .collect();
        let held = node.gpus.iter().filter(|gpu| !gpu.holders.is_empty());
        let leases: Vec<&str> = leases(&node.gpus).into_iter().collect();
        table.push(vec![
            Cell::text(node.name.clone()),
            Cell::text(node.health.clone()),
            Cell::text(kinds.join(" ")),
            Cell::text(held.count().to_string()),
            Cell::text(leases.join(" ")),
        ]);
    }
    table
}
