//! GPUs that are kept for tenants.

use super::{
    Problem,
    call::Call,
    documents::{moment, time},
    json,
};
use crate::message::{Answer, Command};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Broker, Keep, Refusal};
use gpuwise_domain::placement::Reservation;
use gpuwise_wire::broker::{ReservationAnswer, ReservationAsk, ReservationList};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let kept = broker.world().reservations().iter();
    let items = kept.filter_map(|one| answer(&broker, one));
    let seen = items.filter(|one| call.sees(&one.tenant));
    let items = seen.collect();
    Ok(json(StatusCode::OK, &ReservationList { items }))
}

fn answer(broker: &Broker, one: &Reservation) -> Option<ReservationAnswer> {
    let world = broker.world();
    Some(ReservationAnswer {
        name: one.name.clone(),
        tenant: world.queues().get(one.queue.index())?.name.clone(),
        node: world.node(one.node)?.node.name.clone(),
        gpus: one.gpus,
        from: time(one.from),
        until: time(one.until),
    })
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let ask: ReservationAsk = call.document()?;
    let from = match ask.from.as_deref() {
        None => call.now(),
        Some(text) => moment("from", text)?,
    };
    let until = match (ask.until.as_deref(), ask.length.as_deref()) {
        (Some(text), None) => moment("until", text)?,
        (None, Some(text)) => from + call.shared.desk.span("for", text)?,
        _ => return Err(Problem::invalid("until", "say either `until` or `for`")),
    };
    let keep = Keep {
        name: ask.name,
        tenant: ask.tenant,
        node: ask.node,
        gpus: ask.gpus,
        from,
        until,
    };
    let name = keep.name.clone();
    let origin = call.origin(&*name, Some(&keep.tenant))?;
    let status = match call.shared.ask_for(origin, Command::Keep(keep)).await? {
        Answer::Known => StatusCode::OK,
        _ => StatusCode::CREATED,
    };
    let broker = call.shared.broker();
    let mut kept = broker.world().reservations().iter();
    let found = kept.find(|one| one.name == name);
    let found = found.and_then(|one| answer(&broker, one));
    let found = found.ok_or_else(|| Refusal::NoSuchReservation(name.clone()))?;
    Ok(json(status, &found))
}

pub(crate) async fn withdraw(call: Call) -> Result<Response, Problem> {
    let name = call.parameter("reservation").to_owned();
    let tenant = {
        let broker = call.shared.broker();
        let world = broker.world();
        let kept = world.reservations().iter().find(|one| one.name == name);
        let queue = kept.and_then(|one| world.queues().get(one.queue.index()));
        queue.map(|queue| queue.name.clone())
    };
    let origin = call.origin(&*name, tenant.as_deref())?;
    call.shared.ask_for(origin, Command::Withdraw(name)).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
