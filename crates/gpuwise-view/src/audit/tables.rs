//! Tables of an audit.

use super::{Report, gpus, record::Tenant};
use crate::{
    figures, record,
    table::{Cell, Column, Table},
};
use gpuwise_domain::usage::{Usage, proposal::Judgement};
use gpuwise_units::Money;

/// Tenants, the one that could save most first.
pub fn tenants(report: &Report<'_>) -> Table {
    record::table(&report.tenants.iter().map(Tenant).collect::<Vec<_>>())
}

fn money(value: Option<Money>) -> Cell {
    Cell::of(value, |money| {
        Cell::new(figures::amount(money.as_f64()), money.as_f64())
    })
}

/// `2 × 8 A100 SXM4 80GB`, `1g.10gb of A100 SXM4 80GB`.
pub(super) fn holds(usage: &Usage) -> String {
    let asked = &usage.asked;
    let gpu = asked.gpu.as_deref().unwrap_or("GPU");
    let short = gpu
        .trim_start_matches("NVIDIA ")
        .trim_start_matches("Tesla ");
    let one = match &asked.slice {
        Some(slice) => format!("{slice} of {short}"),
        None if asked.slice_untold => format!("a slice of {short}"),
        None if asked.shared_by > 1 => format!("1/{} of {short}", asked.shared_by),
        None => short.to_owned(),
    };
    match (asked.replicas.max(1), asked.devices.max(1)) {
        (1, 1) => one,
        (replicas, 1) => format!("{replicas} × {one}"),
        (1, devices) => format!("{devices} × {one}"),
        (replicas, devices) => format!("{replicas} × {devices} × {one}"),
    }
}

pub(super) fn name(usage: &Usage) -> String {
    if usage.holder.namespace.is_empty() {
        usage.holder.name.clone()
    } else {
        format!("{}/{}", usage.holder.namespace, usage.holder.name)
    }
}

/// Proposals, with why, for people.
pub(super) fn proposals(rows: &[(&Usage, &Judgement)], top: usize) -> Table {
    let mut table = Table::new(vec![
        Column::right("rank", "#"),
        Column::left("workload", "Workload").wrap(10),
        Column::left("holds", "holds").wrap(10).priority(1),
        Column::left("verdict", "is"),
        Column::left("proposal", "do").wrap(12),
        Column::left("reason", "because").wrap(22).priority(3),
        Column::right("saving_gpus", "GPUs").priority(2),
        Column::right("saving_per_year", "$/year"),
        Column::right("hours_short", "short").unit("h").priority(4),
    ])
    .when_empty("Nothing to change.");
    for (rank, (usage, said)) in (1_u64..).zip(rows.iter().take(top)) {
        let Some(proposal) = &said.proposal else {
            continue;
        };
        let saving = proposal.saving;
        table.push(vec![
            Cell::count(rank),
            Cell::text(name(usage)),
            Cell::text(holds(usage)),
            Cell::new(said.verdict.title(), said.verdict.name()),
            Cell::text(proposal.title.clone()),
            Cell::text(said.reason.clone()),
            Cell::new(gpus(saving.gpus), saving.gpus),
            money(
                saving
                    .hourly
                    .map(|hourly| hourly.times(super::YEAR as i64, 1)),
            ),
            Cell::of(proposal.risk.hours_short, |hours| {
                Cell::count(u64::from(hours))
            }),
        ]);
    }
    if !table.is_empty() {
        table
            .footnote("short: hours of these days in which the change would have left too little.");
    }
    table
}

/// Every workload with its figures.
pub fn workloads(report: &Report<'_>) -> Table {
    record::table(&report.rows()).when_empty("No workload holds a GPU.")
}
