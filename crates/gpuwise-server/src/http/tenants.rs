//! Tenants.

use super::{Problem, call::Call, documents, json, tags};
use crate::message::{Answer, Command};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Broker, Refusal};
use gpuwise_wire::broker::{QuotaAsk, TenantAnswer, TenantAsk, TenantChange, TenantList};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = broker.tenants().filter(|tenant| call.sees(&tenant.name));
    let items = seen.filter_map(|tenant| with_account(&call, &broker, &tenant.name));
    let list = TenantList {
        items: items.collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let ask: TenantAsk = call.document()?;
    let name = ask.name.clone();
    let (queue, budget) = call.shared.desk.tenant(&call.shared.broker(), &ask)?;
    let command = Command::CreateTenant(queue, budget);
    let origin = call.origin(&*name, Some(&name))?;
    let status = match call.shared.ask_for(origin, command).await? {
        Answer::Known => StatusCode::OK,
        _ => StatusCode::CREATED,
    };
    answered(&call, &name, status)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    answered(&call, call.parameter("tenant"), StatusCode::OK)
}

/// What can be changed of a tenant; what it holds and spends goes on by itself.
#[derive(serde::Serialize)]
struct Settings<'t>(&'t [QuotaAsk], f64, Option<&'t str>, bool);

fn tag(tenant: &TenantAnswer) -> String {
    let budget = tenant.budget.as_deref();
    tags::of(&Settings(
        &tenant.quota,
        tenant.weight,
        budget,
        tenant.suspended,
    ))
}

pub(crate) async fn change(call: Call) -> Result<Response, Problem> {
    let change: TenantChange = call.document()?;
    let name = call.parameter("tenant").to_owned();
    let command = {
        let broker = call.shared.broker();
        let now = seen(&call, &broker, &name)?;
        tags::unchanged(&call, &tag(&now))?;
        changed(&call, &broker, now, change)?
    };
    let origin = call.origin(&*name, Some(&name))?;
    call.shared.ask_for(origin, command).await?;
    answered(&call, &name, StatusCode::OK)
}

fn changed(
    call: &Call,
    broker: &Broker,
    now: TenantAnswer,
    change: TenantChange,
) -> Result<Command, Problem> {
    let queues = broker.world().queues().iter();
    let before = queues.clone().find(|queue| queue.name == now.name);
    let keeps_quota = change.quota.is_none();
    let ask = TenantAsk {
        name: now.name.clone(),
        budget: match change.budget {
            None => now.budget,
            Some(text) if text.trim() == "none" => None,
            text => text,
        },
        quota: change.quota.unwrap_or_default(),
        weight: Some(change.weight.unwrap_or(now.weight)),
    };
    let (mut queue, budget) = call.shared.desk.tenant(broker, &ask)?;
    if let Some(before) = before {
        let (weight_milli, quotas) = (queue.weight_milli, queue.quotas);
        queue = before.clone();
        queue.weight_milli = weight_milli;
        if !keeps_quota {
            queue.quotas = quotas;
        }
    }
    let suspended = change.suspended.unwrap_or(now.suspended);
    Ok(Command::ChangeTenant(queue, budget, suspended))
}

fn with_account(call: &Call, broker: &Broker, name: &str) -> Option<TenantAnswer> {
    let document = documents::tenant(broker, call.now(), name)?;
    let account = call.shared.accounts.of(name);
    Some(TenantAnswer {
        account,
        ..document
    })
}

fn seen(call: &Call, broker: &Broker, name: &str) -> Result<TenantAnswer, Problem> {
    let seen = Some(name).filter(|name| call.sees(name));
    let document = seen.and_then(|name| with_account(call, broker, name));
    Ok(document.ok_or_else(|| Refusal::NoSuchTenant(name.to_owned()))?)
}

fn answered(call: &Call, name: &str, status: StatusCode) -> Result<Response, Problem> {
    let document = seen(call, &call.shared.broker(), name)?;
    let mut response = json(status, &document);
    tags::put(&mut response, &tag(&document));
    Ok(response)
}
