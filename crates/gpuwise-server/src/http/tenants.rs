//! Tenants.

use super::{Problem, call::Call, documents, json};
use crate::message::Command;
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::Refusal;
use gpuwise_wire::broker::{TenantAsk, TenantList};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = broker.tenants().filter(|tenant| call.sees(&tenant.name));
    let items = seen.filter_map(|tenant| documents::tenant(&broker, call.now(), &tenant.name));
    let list = TenantList {
        items: items.collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let ask: TenantAsk = call.document()?;
    let name = ask.name.clone();
    let (queue, budget) = call.shared.desk.tenant(&call.shared.broker(), &ask)?;
    call.shared
        .ask(Command::CreateTenant(queue, budget))
        .await?;
    answered(&call, &name, StatusCode::CREATED)
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    answered(&call, call.parameter("tenant"), StatusCode::OK)
}

fn answered(call: &Call, name: &str, status: StatusCode) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = Some(name).filter(|name| call.sees(name));
    let document = seen.and_then(|name| documents::tenant(&broker, call.now(), name));
    let document = document.ok_or_else(|| Refusal::NoSuchTenant(name.to_owned()))?;
    Ok(json(status, &document))
}
