//! Who may have how much, who asks, and what runs: quotas, budgets, projects, users, jobs.

use super::{
    Problem,
    call::Call,
    documents::{self, time},
    json,
};
use axum::{http::StatusCode, response::Response};
use gpuwise_account::period::Month;
use gpuwise_broker::{Broker, Lease, exact};
use gpuwise_sched::{
    queues::{held_by, milli_of},
    world::World,
};
use gpuwise_units::Money;
use gpuwise_wire::broker::{
    BudgetAnswer, BudgetList, JobAnswer, JobList, ProjectAnswer, ProjectList, QuotaAnswer,
    QuotaList, UserAnswer, UserList,
};
use std::collections::BTreeMap;

pub(crate) async fn quotas(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let world = broker.world();
    let mut items = Vec::new();
    for queue in world.queues().iter().filter(|queue| call.sees(&queue.name)) {
        let mut held: BTreeMap<u32, u64> = BTreeMap::new();
        for lease in holding(&broker, &queue.name) {
            for (kind, milli) in held_by(world, &lease.place) {
                *held.entry(kind).or_default() += milli;
            }
        }
        let asks = documents::quotas(world, queue);
        for (quota, ask) in queue.quotas.iter().zip(asks) {
            let of = quota
                .kinds
                .iter()
                .map(|kind| held.get(&kind.0).copied().unwrap_or(0));
            let milli: u64 = of.sum();
            let borrowed = milli.saturating_sub(quota.nominal_milli);
            items.push(QuotaAnswer {
                tenant: queue.name.clone(),
                quota: ask,
                held: gpus(milli),
                borrowed: gpus(borrowed),
            });
        }
    }
    Ok(json(StatusCode::OK, &QuotaList { items }))
}

fn gpus(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

/// A tenant's leases that hold GPUs.
fn holding<'b>(broker: &'b Broker, tenant: &str) -> impl Iterator<Item = &'b Lease> {
    let open = broker.open_of(tenant);
    open.filter(|lease| broker.state(lease).0.holds())
}

pub(crate) async fn budgets(call: Call) -> Result<Response, Problem> {
    let now = call.now();
    let broker = call.shared.broker();
    let seen = broker.tenants().filter(|tenant| call.sees(&tenant.name));
    let items = seen.filter_map(|tenant| {
        let budget = broker.budget(&tenant.name)?;
        let (spent, reserved) = broker.spending(now, &tenant.name)?;
        let money = |micros: i128| {
            let micros = i64::try_from(micros).unwrap_or(i64::MAX);
            exact(Money {
                micros,
                currency: budget.currency,
            })
        };
        Some(BudgetAnswer {
            tenant: tenant.name.clone(),
            month: Month::of(now).to_string(),
            budget: exact(budget),
            spent: money(spent),
            reserved: money(reserved),
            left: money(i128::from(budget.micros) - spent - reserved),
        })
    });
    let items = items.collect();
    Ok(json(StatusCode::OK, &BudgetList { items }))
}

pub(crate) async fn projects(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let world = broker.world();
    let mut all: BTreeMap<(&str, &str), ProjectAnswer> = BTreeMap::new();
    for lease in broker.leases().filter(|lease| call.sees(&lease.ask.tenant)) {
        let Some(project) = &lease.ask.project else {
            continue;
        };
        let one = all
            .entry((&lease.ask.tenant, project))
            .or_insert_with(|| ProjectAnswer {
                tenant: lease.ask.tenant.clone(),
                project: project.clone(),
                open: 0,
                leases: 0,
                gpus: 0.0,
            });
        one.leases += 1;
        if lease.over.is_none() {
            one.open += 1;
            if broker.state(lease).0.holds() {
                one.gpus += gpus(milli_of(world, &lease.place));
            }
        }
    }
    let items = all.into_values().collect();
    Ok(json(StatusCode::OK, &ProjectList { items }))
}

pub(crate) async fn users(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let mut open: BTreeMap<&str, u32> = BTreeMap::new();
    for by in broker.open().filter_map(|lease| lease.by.as_deref()) {
        *open.entry(by).or_default() += 1;
    }
    let own = call.tenant();
    let seen = broker
        .tokens()
        .filter(|token| own.is_none_or(|own| token.tenant.as_deref() == Some(own)));
    let mut items: Vec<UserAnswer> = seen
        .map(|token| UserAnswer {
            name: token.name.clone(),
            role: token.role,
            tenant: token.tenant.clone(),
            leases: open.get(token.name.as_str()).copied().unwrap_or(0),
        })
        .collect();
    items.sort_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name)));
    Ok(json(StatusCode::OK, &UserList { items }))
}

pub(crate) async fn jobs(call: Call) -> Result<Response, Problem> {
    let limit = call.limit()?;
    let before: u32 = call.before(u32::MAX)?;
    let broker = call.shared.broker();
    let mut found = broker
        .leases()
        .rev()
        .filter(|lease| lease.number < before && !lease.ask.command.is_empty())
        .filter(|lease| call.sees(&lease.ask.tenant));
    let page: Vec<&Lease> = found.by_ref().take(limit).collect();
    let more = found.next().is_some();
    let next = page
        .last()
        .filter(|_| more)
        .map(|lease| lease.number.to_string());
    let items = page.into_iter().map(|lease| job(&broker, lease)).collect();
    Ok(json(StatusCode::OK, &JobList { items, next }))
}

fn job(broker: &Broker, lease: &Lease) -> JobAnswer {
    let world: &World = broker.world();
    let state = world.job(lease.job());
    let nodes = lease.place.iter().filter_map(|one| world.node(one.node));
    JobAnswer {
        lease: lease.id(),
        tenant: lease.ask.tenant.clone(),
        command: lease.ask.command.clone(),
        state: broker.state(lease).0.name().to_owned(),
        nodes: nodes.map(|node| node.node.name.clone()).collect(),
        failed_starts: lease.failed_starts,
        stops: state.map_or(0, |state| state.stops),
        started_at: lease.started.map(time),
        exit_code: lease.over.as_ref().and_then(|over| over.exit_code),
    }
}
