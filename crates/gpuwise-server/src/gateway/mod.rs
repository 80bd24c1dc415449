//! The gateway: OpenAI's API before the services that tenants lease. It finds a replica, wakes a service that
//! gave its GPUs back, holds the request meanwhile, and passes the answer on as it comes.

mod client;
mod count;
mod demand;
mod health;
mod idle;
mod patience;
mod pick;
mod relay;
mod traffic;

pub(crate) use client::Client;
pub(crate) use demand::Demand;
pub(crate) use health::check;
pub(crate) use idle::watch;
pub use patience::EnginePatience;
pub(crate) use traffic::{ENDS, Tally, Traffic};

use crate::{
    endpoints::{InFlight, Replica},
    http::{Problem, call::Call, json},
    message::Command,
};
use axum::{
    body::Bytes,
    http::{StatusCode, header},
    response::Response,
};
use gpuwise_broker::{Lease, LeaseState, ReplicaRole};
use gpuwise_wire::broker::{CompletionAsk, ServedModel, ServedModels};
use relay::Relaying;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a request waits for a service to get ready.
const HOLD: Duration = Duration::from_mins(10);

/// How often is looked whether a service for which a request waits is still to come.
const LOOK: Duration = Duration::from_secs(1);

/// A body of a request at most, in bytes: prompts of a million tokens, pictures.
pub(crate) const LARGEST: usize = 64 << 20;

pub(crate) async fn chat(call: Call) -> Result<Response, Problem> {
    complete(call, "/v1/chat/completions").await
}

pub(crate) async fn completions(call: Call) -> Result<Response, Problem> {
    complete(call, "/v1/completions").await
}

pub(crate) async fn models(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let mut seen = BTreeMap::new();
    for (model, lease) in broker.services() {
        if call.sees(&lease.ask.tenant) {
            seen.entry((model, lease.ask.tenant.as_str()))
                .or_insert(lease.requested.0 / 1_000_000_000);
        }
    }
    let model = |((id, tenant), created): ((&str, &str), u64)| ServedModel {
        id: id.into(),
        object: "model".into(),
        created,
        owned_by: tenant.into(),
    };
    let list = ServedModels {
        object: "list".into(),
        data: seen.into_iter().map(model).collect(),
    };
    Ok(json(StatusCode::OK, &list))
}

async fn complete(call: Call, path: &'static str) -> Result<Response, Problem> {
    let ask: CompletionAsk = call.document()?;
    let stream = ask.stream == Some(true);
    let prefix = pick::prefix(&ask);
    let body = count::with_usage(&call.body, stream);
    let mut failed = Vec::new();
    let mut waiting = comes(&call, &ask.model);
    let mut judged = None;
    loop {
        let (lease, slot) = find(&call, &ask.model, prefix, &failed).await?;
        if let Some(waiting) = waiting.take() {
            judged = waiting.sent(call.now());
        }
        let address = slot.address().to_owned();
        let mut started = call.shared.traffic.begins(lease, call.now());
        let asked = request(&call, &address, path, body.text.clone())?;
        let patience = call.shared.patience;
        let answer = tokio::select! {
            biased;
            answer = call.shared.client.request(asked) => answer,
            silence = patience.until_first(slot.replica()) => {
                started.silent();
                return Err(silent(&ask.model, &silence));
            }
        };
        match answer {
            Ok(response) => {
                started.judged_by(judged.take());
                let how = Relaying {
                    hide_usage: body.added,
                    stream,
                    patience,
                };
                return Ok(relay::relay(response, started, slot, how).await);
            }
            // Nothing was sent: another replica may be well.
            Err(error) if error.is_connect() && failed.len() < 8 => {
                started.not_sent();
                failed.push(address);
            }
            Err(error) => {
                let detail = format!("the service of {} broke off: {error}", ask.model);
                return Err(Problem::new(StatusCode::BAD_GATEWAY, "engine", detail));
            }
        }
    }
}

/// A request whose engine was silent for too long.
fn silent(model: &str, silence: &patience::Silence) -> Problem {
    let detail = format!("the service of {model} was given up: {silence}");
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "engine-silent", detail)
}

/// Where a request goes that another gateway passes on; it is under way until what is returned is dropped.
pub(crate) async fn pick(call: &Call) -> Result<InFlight, Problem> {
    let ask: CompletionAsk = call.document()?;
    let waiting = comes(call, &ask.model);
    let (_, slot) = find(call, &ask.model, pick::prefix(&ask), &[]).await?;
    // What becomes of it the other gateway sees.
    drop(waiting.map(|waiting| waiting.sent(call.now())));
    Ok(slot)
}

/// Counts a request where its service follows demand.
fn comes(call: &Call, model: &str) -> Option<demand::Waiting> {
    let broker = call.shared.broker();
    let mut own = broker
        .serving(model)
        .filter(|lease| call.sees(&lease.ask.tenant));
    let (service, scaling) = own.find_map(|lease| broker.scaling_of(lease))?;
    let late = call.now() + scaling.rules().wait;
    let demand = &call.shared.demand;
    Some(demand.comes(service, late, scaling.targets()))
}

fn request(
    call: &Call,
    address: &str,
    path: &str,
    body: Bytes,
) -> Result<axum::http::Request<axum::body::Body>, Problem> {
    let mut request = axum::http::Request::post(format!("http://{address}{path}"));
    // Who asks is not the engine's business: the token stays here.
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = call.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    if let Some(id) = call.headers.get("x-request-id") {
        request = request.header("x-request-id", id);
    }
    let request = request.body(axum::body::Body::from(body));
    request.map_err(|error| {
        let detail = format!("{address} cannot be asked: {error}");
        Problem::new(StatusCode::BAD_GATEWAY, "engine", detail)
    })
}

/// What there is for a model now.
enum Found {
    /// Nobody serves it, as far as this token sees.
    Nobody,
    /// Who serves it has as many requests as it may.
    Full,
    /// Who serves it does not say that it is well, and why.
    Unwell(String),
    Replica(u32, InFlight),
    /// Who serves it is not ready; those that rest are to be woken.
    Later(Vec<u32>),
}

/// A replica for a request: waits until there is one.
async fn find(
    call: &Call,
    model: &str,
    prefix: u64,
    failed: &[String],
) -> Result<(u32, InFlight), Problem> {
    let mut changes = call.shared.endpoints.changes();
    let wait = async {
        loop {
            changes.mark_unchanged();
            match look(call, model, prefix, failed) {
                Found::Later(_) if call.shared.executor == "simulated" => {
                    let detail =
                        "nothing runs on simulated GPUs: `serve --executor local` starts services";
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    return Err(Problem::new(status, "simulated", detail));
                }
                Found::Replica(lease, slot) => return Ok((lease, slot)),
                Found::Nobody => {
                    let detail =
                        format!("no service serves {model:?}; GET /v1/models lists what is there");
                    return Err(Problem::new(StatusCode::NOT_FOUND, "model", detail));
                }
                Found::Full => {
                    let detail = format!("{model} has as many requests as it takes at once");
                    let full = Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail);
                    return Err(full.later(1));
                }
                Found::Unwell(why) => {
                    let detail = format!("no replica of {model} is well: {why}");
                    let status = StatusCode::SERVICE_UNAVAILABLE;
                    return Err(Problem::new(status, "unwell", detail).later(5));
                }
                Found::Later(rest) => {
                    for lease in rest {
                        call.shared.ask(Command::Wake(lease)).await?;
                    }
                }
            }
            // What begins to answer says so; that nobody will is looked for.
            let _ = tokio::time::timeout(LOOK, changes.changed()).await;
        }
    };
    tokio::time::timeout(HOLD, wait).await.unwrap_or_else(|_| {
        let detail = format!("{model} did not get ready within {} s", HOLD.as_secs());
        let late = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", detail);
        Err(late.later(30))
    })
}

fn look(call: &Call, model: &str, prefix: u64, failed: &[String]) -> Found {
    let broker = call.shared.broker();
    let mut rest = Vec::new();
    let (mut any, mut grows, mut coming, mut waits) = (false, false, false, false);
    let mut ready: Vec<(u32, Arc<Replica>, Option<u32>)> = Vec::new();
    for lease in broker.serving(model) {
        if !call.sees(&lease.ask.tenant) {
            continue;
        }
        let state = broker.state(lease).0;
        if let Some((_, scaling)) = broker.scaling_of(lease) {
            let serving = |(_, role): &(u32, ReplicaRole)| *role == ReplicaRole::Serving;
            let many = scaling.replicas().filter(serving).count();
            grows |= many < scaling.rules().max as usize;
            if !broker.takes_requests(lease) {
                any |= !state.is_over();
                // What rests is woken where nobody serves, and else by who counts what comes.
                if state == LeaseState::Suspended && many == 0 && rest.is_empty() {
                    rest.push(lease.number);
                }
                continue;
            }
            coming = true;
        }
        match state {
            LeaseState::Active | LeaseState::Starting => {
                any = true;
                waits |= state == LeaseState::Starting;
                let most = limit(lease);
                let replicas = call.shared.endpoints.of(lease.number);
                let well = |one: &Arc<Replica>| !failed.contains(&one.address);
                let replicas = replicas.into_iter().filter(well);
                ready.extend(replicas.map(|one| (lease.number, one, most)));
            }
            LeaseState::Suspended => {
                any = true;
                rest.push(lease.number);
            }
            LeaseState::Requested | LeaseState::Reserved | LeaseState::Halted => {
                any = true;
                waits = true;
            }
            LeaseState::Draining | LeaseState::Ended | LeaseState::Failed => {}
        }
    }
    let unwell = leave_out_unwell(&mut ready);
    if !ready.is_empty() {
        let open: Vec<(u32, &Arc<Replica>)> = ready
            .iter()
            .filter(|(_, one, most)| most.is_none_or(|most| one.load() < most))
            .map(|(lease, one, _)| (*lease, one))
            .collect();
        return match pick::pick(&open, prefix) {
            Some((lease, replica)) => Found::Replica(lease, replica.enter()),
            // Another replica comes where that is so for a while.
            None if grows => Found::Later(Vec::new()),
            None => Found::Full,
        };
    }
    if any {
        if coming {
            // Somebody is on the way.
            rest.retain(|number| {
                broker
                    .lease(*number)
                    .is_some_and(|lease| broker.takes_requests(lease))
            });
        }
        match unwell {
            // Nobody else is on the way.
            Some(why) if rest.is_empty() && !waits => Found::Unwell(why),
            _ => Found::Later(rest),
        }
    } else {
        Found::Nobody
    }
}

/// Leaves replicas out that do not say that they are well; why one does not.
fn leave_out_unwell(ready: &mut Vec<(u32, Arc<Replica>, Option<u32>)>) -> Option<String> {
    let mut unwell = None;
    ready.retain(|(_, one, _)| {
        let health = one.health();
        let health = health.borrow();
        if let Some((_, why)) = health.unwell() {
            unwell = Some(why.to_owned());
        }
        health.unwell().is_none()
    });
    unwell
}

fn limit(lease: &Lease) -> Option<u32> {
    lease.ask.service.as_ref()?.concurrency
}
