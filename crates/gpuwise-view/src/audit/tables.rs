//! Tables of an audit.

use super::{Report, gpus};
use crate::{
    figures,
    table::{Cell, Column, Table},
};
use gpuwise_domain::usage::{
    Usage,
    proposal::{Judgement, Side},
};
use gpuwise_units::{Bytes, Money};

/// Tenants, the one that could save most first.
pub fn tenants(report: &Report<'_>) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant", "Tenant").wrap(12),
        Column::right("workloads", "workloads").priority(2),
        Column::right("gpus", "GPUs"),
        Column::right("share_over", "too much"),
        Column::right("share_right", "right").priority(1),
        Column::right("share_under", "too little").priority(3),
        Column::right("cost_per_hour", "cost").unit("$/h"),
        Column::right("saving_per_hour", "saving").unit("$/h"),
        Column::right("saving_gpus", "saving").unit("GPUs"),
    ]);
    for tenant in report.tenants {
        let share = |side| {
            Cell::of(tenant.share(side), |share| {
                Cell::new(figures::percent(share), share)
            })
        };
        table.push(vec![
            Cell::text(if tenant.tenant.is_empty() {
                "(none)"
            } else {
                &tenant.tenant
            }),
            Cell::count(u64::from(tenant.workloads)),
            Cell::new(gpus(tenant.gpus), tenant.gpus),
            share(Side::Over),
            share(Side::Right),
            share(Side::Under),
            money(Some(tenant.hourly)),
            money(Some(tenant.saved)),
            Cell::new(gpus(tenant.freed), tenant.freed),
        ]);
    }
    table
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
        Column::right("saving_per_hour", "$/h"),
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
            money(saving.hourly),
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
    let mut table = Table::new(vec![
        Column::left("tenant", "Tenant"),
        Column::raw("namespace"),
        Column::left("workload", "Workload"),
        Column::raw("kind"),
        Column::left("holds", "holds"),
        Column::raw("gpu"),
        Column::raw("mig_profile"),
        Column::raw("gpus"),
        Column::raw("replicas"),
        Column::left("verdict", "is"),
        Column::left("reason", "because"),
        Column::raw("proposal_kind"),
        Column::left("proposal", "do"),
        Column::right("saving_gpus", "saving").unit("GPUs"),
        Column::right("saving_per_hour", "saving").unit("$/h"),
        Column::right("hours_short", "short").unit("h"),
        Column::raw("present"),
        Column::raw("hours"),
        Column::raw("device_hours"),
        Column::raw("memory_peak_mib"),
        Column::raw("memory_average_mib"),
        Column::raw("compute_measure"),
        Column::raw("compute_average"),
        Column::raw("compute_p95"),
        Column::raw("tensor_active_average"),
        Column::raw("dram_active_p95"),
        Column::raw("cpus"),
        Column::raw("cpu_share"),
        Column::raw("throttled_share"),
        Column::raw("requests_waiting"),
        Column::raw("latency_seconds"),
    ])
    .when_empty("No workload holds a GPU.");
    for (usage, said) in report.ranked() {
        table.push(row(usage, said));
    }
    table
}

fn row(usage: &Usage, said: &Judgement) -> Vec<Cell> {
    let text = |value: Option<&str>| Cell::of(value, Cell::text);
    let number = |value: Option<f64>| Cell::of(value, Cell::number);
    let mib = |value: Option<Bytes>| number(value.map(Bytes::mib));
    let proposal = said.proposal.as_ref();
    let compute = usage.compute.as_ref();
    let engine = usage.engine.as_ref();
    vec![
        Cell::text(usage.tenant.clone()),
        Cell::text(usage.holder.namespace.clone()),
        Cell::text(usage.holder.name.clone()),
        Cell::text(usage.holder.kind.clone()),
        Cell::text(holds(usage)),
        text(usage.asked.gpu.as_deref()),
        text(usage.asked.slice.as_deref()),
        Cell::count(u64::from(usage.asked.devices)),
        Cell::count(u64::from(usage.asked.replicas)),
        Cell::new(said.verdict.title(), said.verdict.name()),
        Cell::text(said.reason.clone()),
        text(proposal.map(|p| p.change.kind().name())),
        text(proposal.map(|p| p.title.as_str())),
        Cell::of(proposal, |p| Cell::new(gpus(p.saving.gpus), p.saving.gpus)),
        money(proposal.and_then(|p| p.saving.hourly)),
        Cell::of(proposal.and_then(|p| p.risk.hours_short), |hours| {
            Cell::count(u64::from(hours))
        }),
        Cell::new(if usage.present { "yes" } else { "no" }, usage.present),
        Cell::number(usage.hours),
        Cell::number(usage.device_hours),
        mib(usage.memory_peak),
        mib(usage.memory_average),
        text(compute.map(|compute| compute.measure.title())),
        number(compute.and_then(|compute| compute.average)),
        number(compute.and_then(|compute| compute.p95)),
        number(usage.tensor_average),
        number(usage.dram_p95),
        number(usage.asked.cpus),
        number(usage.cpu_share),
        number(usage.throttled_share),
        number(engine.and_then(|engine| engine.waiting)),
        number(engine.and_then(|engine| engine.latency)),
    ]
}
