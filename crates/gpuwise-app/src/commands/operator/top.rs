//! `gpuwise operator top`.

use super::{ClusterFlags, Context, Exit, unread, wrong};
use crate::{app::Format, schemas::AnswerName};
use clap::Args;
use gpuwise_k8s::{
    inventory::{Inventory, NodeUsage, WorkloadUsage},
    operator::{self, PriceBook},
    watch::{Said, Settings, Source, drive},
};
use gpuwise_units::Money;
use gpuwise_view::table::{Cell, Column, Table};
use gpuwise_wire::broker::{ClusterNodeUsage, ClusterTopAnswer, ClusterWorkloadUsage};
use std::io::IsTerminal as _;

#[derive(Debug, Args)]
pub struct Flags {
    /// Of one namespace alone
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Show it again after each change
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    let context = context.answering(AnswerName::ClusterTop);
    let book = operator::price_book(&flags.cluster.connection());
    let book = book.map_err(unread)?.unwrap_or_default();
    let source = Source::Kubeconfig {
        file: flags.cluster.kubeconfig.clone(),
        context: flags.cluster.context.clone(),
    };
    let clears =
        flags.watch && context.form.format == Format::Table && std::io::stdout().is_terminal();
    let seen = |said: Said<'_>| -> anyhow::Result<()> {
        match said {
            Said::Inventory(inventory) => {
                if clears {
                    // From the first place of a cleared screen.
                    context.data("\x1b[2J\x1b[H")?;
                }
                show(&context, &answer(inventory, &book, flags))?;
            }
            Said::Trouble(trouble) => crate::progress::say(&format!("▲ {trouble}")),
        }
        Ok(())
    };
    drive(&source, Settings::default(), flags.watch, seen).map_err(wrong)?;
    Ok(Exit::Yes)
}

/// An amount of an hour as a decimal with its currency, to the last digit.
fn exact(micros: i64, book: &PriceBook) -> Option<String> {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    (!book.currency.is_empty()).then(|| format!("{whole}.{rest:06} {}", book.currency))
}

fn answer(inventory: &Inventory, book: &PriceBook, flags: &Flags) -> ClusterTopAnswer {
    let nodes = inventory.node_usage();
    let mut workloads = inventory.workload_usage(&book.by_product);
    let whole = |what: &str| !what.contains("/mig-");
    let sum = |number: fn(&NodeUsage) -> u64| {
        let counted = nodes.iter().filter(|one| whole(&one.what)).map(number);
        counted.fold(0, u64::saturating_add)
    };
    let pending = workloads.iter().filter(|one| whole(&one.what));
    let pending = pending.map(|one| one.waits).fold(0, u64::saturating_add);
    let each = workloads.iter().map(|one| one.per_hour);
    let per_hour = each.reduce(|all, one| all.zip(one).and_then(|(a, b)| a.checked_add(b)));
    if let Some(namespace) = &flags.namespace {
        workloads.retain(|one| *one.workload.namespace == **namespace);
    }
    ClusterTopAnswer {
        gpus: sum(|one| one.has),
        held: sum(|one| one.held),
        pending,
        per_hour: per_hour.flatten().and_then(|micros| exact(micros, book)),
        nodes: nodes.into_iter().map(node).collect(),
        workloads: workloads
            .into_iter()
            .map(|one| workload(one, book))
            .collect(),
    }
}

fn node(one: NodeUsage) -> ClusterNodeUsage {
    ClusterNodeUsage {
        free: one.has.saturating_sub(one.held),
        node: one.node,
        product: one.product,
        resource: one.what,
        allocatable: one.has,
        held: one.held,
        schedulable: one.open,
    }
}

fn workload(one: WorkloadUsage, book: &PriceBook) -> ClusterWorkloadUsage {
    ClusterWorkloadUsage {
        namespace: one.workload.namespace.to_string(),
        kind: one.workload.kind.to_string(),
        name: one.workload.name.to_string(),
        resource: one.what,
        pods: one.pods,
        held: one.held,
        warm: one.warm,
        pending: one.waits,
        per_hour: one.per_hour.and_then(|micros| exact(micros, book)),
    }
}

fn show(context: &Context, seen: &ClusterTopAnswer) -> anyhow::Result<()> {
    match context.form.format {
        Format::Json => return context.json(&serde_json::to_value(seen)?),
        Format::Table => {
            let cost = seen.per_hour.as_deref().map(money);
            let cost = cost.map_or(String::new(), |cost| format!("  {}/h", cost.shown()));
            context.data(&format!(
                "GPUs {} of {} held, {} pending{cost}\n\n",
                seen.held, seen.gpus, seen.pending
            ))?;
            context.table(&nodes(seen))?;
            context.data("\n")?;
        }
        Format::Csv | Format::Md => {}
    }
    context.table(&workloads(seen))
}

fn money(exact: &str) -> Cell {
    let known = exact.parse::<Money>().ok();
    known.map_or_else(
        || Cell::text(exact),
        |money| Cell::new(money.to_string(), exact),
    )
}

fn nodes(seen: &ClusterTopAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("node", "Node"),
        Column::left("product", "Product"),
        Column::left("resource", "Resource"),
        Column::right("allocatable", "Allocatable"),
        Column::right("held", "Held"),
        Column::right("free", "Free"),
        Column::left("state", "State"),
    ])
    .when_empty("no node has GPUs");
    for one in &seen.nodes {
        table.push(vec![
            Cell::text(one.node.clone()),
            Cell::of(one.product.as_deref(), Cell::text),
            Cell::text(one.resource.clone()),
            Cell::count(one.allocatable),
            Cell::count(one.held),
            Cell::count(one.free),
            Cell::text(if one.schedulable {
                "schedulable"
            } else {
                "unschedulable"
            }),
        ]);
    }
    table
}

fn workloads(seen: &ClusterTopAnswer) -> Table {
    let mut table = Table::new(vec![
        Column::left("namespace", "Namespace"),
        Column::left("workload", "Workload"),
        Column::left("resource", "Resource"),
        Column::right("pods", "Pods"),
        Column::right("held", "Held"),
        Column::right("warm", "Warm"),
        Column::right("pending", "Pending"),
        Column::right("per_hour", "Cost").unit("/h"),
    ])
    .when_empty("nobody asks for GPUs");
    for one in &seen.workloads {
        table.push(vec![
            Cell::text(one.namespace.clone()),
            Cell::text(format!("{}/{}", one.kind, one.name)),
            Cell::text(one.resource.clone()),
            Cell::count(one.pods),
            Cell::count(one.held),
            Cell::count(one.warm),
            Cell::count(one.pending),
            Cell::of(one.per_hour.as_deref(), money),
        ]);
    }
    table
}
