//! Leases: asked for, listed, explained, given back.

use super::{Problem, call::Call, documents, images, json, secrets, tags};
use crate::{
    message::{Answer, Command},
    tenant_bounds::check_size,
};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use gpuwise_broker::{Asked, Lease, LeaseState, Refusal};
use gpuwise_wire::broker::{ExplanationAnswer, LeaseAsk, LeaseList, WeighedAnswer};
use std::sync::Arc;

pub(crate) async fn request(call: Call) -> Result<Response, Problem> {
    let mut ask: LeaseAsk = call.document()?;
    if ask.tenant.is_empty() {
        ask.tenant = call.tenant().unwrap_or_default().to_owned();
    }
    if ask.tenant.is_empty() {
        return Err(Problem::invalid("tenant", "say which tenant leases"));
    }
    if !call.sees(&ask.tenant) {
        return Err(Refusal::NoSuchTenant(ask.tenant).into());
    }
    check_size(&ask, call.shared.lease_bytes)?;
    images::checked(&ask, call.shared.executor, call.shared.takes_images)?;
    can_run(&ask)?;
    has_port(&ask, call.shared.executor)?;
    secrets::checked(&ask, call.shared.executor)?;
    // Programs go on with the trace of whoever asked.
    if let Some(trace) = call.header("traceparent")
        && !ask.command.is_empty()
    {
        let name = crate::observe::VARIABLE.to_owned();
        ask.env.entry(name).or_insert_with(|| trace.into());
    }
    let key = call.key()?;
    if let Some(key) = &key
        && let Some(known) = call.shared.broker().known(call.now(), &ask.tenant, key)?
    {
        return answered(&call, known, StatusCode::OK);
    }
    let shared = Arc::clone(&call.shared);
    let sized = tokio::task::spawn_blocking(move || {
        let sized = if ask.model.is_some() {
            // A plan takes a while: nobody who writes waits for it.
            let broker = shared.broker().slice();
            shared.desk.lease(&broker, &ask)?
        } else {
            shared.desk.lease(&shared.broker(), &ask)?
        };
        Ok::<_, Refusal>((ask, sized))
    });
    let (ask, sized) = sized.await.map_err(|_| unsized_lease())??;
    let asked = Asked {
        ask,
        job: sized.job,
        size: sized.size,
        length: sized.length,
        key,
        deployment: sized.deployment,
        objectives: sized.objectives,
        in_place_of: None,
    };
    let mut origin = call.origin("", Some(&asked.ask.tenant))?;
    // The request itself has it.
    origin.key = None;
    let command = Command::Request(Box::new(asked));
    match call.shared.ask_for(origin, command).await? {
        Answer::Lease(number, true) => answered(&call, number, StatusCode::CREATED),
        Answer::Lease(number, false) => answered(&call, number, StatusCode::OK),
        _ => Err(unsized_lease()),
    }
}

/// Whether what a lease says of its page of metrics can be read here: a path alone is at a port that it is given.
fn has_port(ask: &LeaseAsk, executor: &str) -> Result<(), Problem> {
    let path = ask
        .metrics
        .as_deref()
        .is_some_and(|said| said.starts_with('/'));
    let given = ask.service.is_some() || executor == "local" && !ask.command.is_empty();
    if !path || given {
        return Ok(());
    }
    let what = format!(
        "a path is at the port that a lease is given: say which model it serves, or the address of its node \
         (--executor {executor} gives no port to what serves none)"
    );
    Err(Problem::invalid("metrics", what))
}

fn unsized_lease() -> Problem {
    let detail = "the lease could not be sized: this is an error of gpuwise";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
}

fn answered(call: &Call, number: u32, status: StatusCode) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let id = gpuwise_broker::lease_id(number);
    let lease = broker.lease(number).ok_or(Refusal::NoSuchLease(id))?;
    let document = documents::lease(&broker, call.now(), lease);
    let mut response = json(status, &document);
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/leases/{}", lease.id())) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// The lease of the path, where whoever asks may see it.
pub(super) fn seen<'b>(
    call: &Call,
    broker: &'b gpuwise_broker::Broker,
) -> Result<&'b Lease, Problem> {
    let id = call.parameter("lease");
    let lease = broker.lease_of(id)?;
    if call.sees(&lease.ask.tenant) {
        Ok(lease)
    } else {
        Err(Refusal::NoSuchLease(id.to_owned()).into())
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let lease = seen(&call, &broker)?;
    let mut document = documents::lease(&broker, call.now(), lease);
    document.queued = call.shared.queued.of(lease.number);
    document.health = documents::health_of(&call.shared, lease);
    document.waits_for = call.shared.remains.of(lease.number);
    Ok(tags::json(&call, &document, &tags::of(&document)))
}

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let limit = call.limit()?;
    let before = call.before(u32::MAX)?;
    let wanted = wanted(&call)?;
    let broker = call.shared.broker();
    let now = call.now();
    let of = call.query("tenant");
    let mut found = broker
        .leases()
        .rev()
        .filter(|lease| lease.number < before)
        .filter(|lease| call.sees(&lease.ask.tenant))
        .filter(|lease| of.is_none_or(|tenant| tenant == lease.ask.tenant))
        .filter(|lease| wanted(broker.state(lease).0));
    let (mut page, mut bytes): (Vec<&Lease>, usize) = (Vec::new(), 0);
    let mut more = false;
    for lease in found.by_ref() {
        more = page.len() >= limit || bytes > PAGE;
        if more {
            break;
        }
        bytes += size(&lease.ask);
        page.push(lease);
    }
    let next = page
        .last()
        .filter(|_| more)
        .map(|lease| lease.number.to_string());
    let items = page
        .into_iter()
        .map(|lease| documents::lease(&broker, now, lease));
    let list = LeaseList {
        items: items.collect(),
        next,
    };
    Ok(json(StatusCode::OK, &list))
}

/// Whether a command and its variables can be started at all.
fn can_run(ask: &LeaseAsk) -> Result<(), Problem> {
    if ask.command.first().is_some_and(String::is_empty) {
        return Err(Problem::invalid(
            "command[0]",
            "it is empty: expected a program",
        ));
    }
    match ask
        .env
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        Some(name) => {
            let what = format!("{name:?} cannot be the name of a variable");
            Err(Problem::invalid("env", what))
        }
        None => Ok(()),
    }
}

/// Bytes of what was asked for after which a page of leases ends.
const PAGE: usize = 2 << 20;

/// About how many bytes a request has.
fn size(ask: &LeaseAsk) -> usize {
    let env = ask.env.iter().map(|(name, value)| name.len() + value.len());
    let words = ask.command.iter().map(String::len);
    env.chain(words).sum::<usize>() + 1_000
}

fn wanted(call: &Call) -> Result<impl Fn(LeaseState) -> bool + use<>, Problem> {
    let (open, one) = match call.query("state") {
        None => (false, None),
        Some("open") => (true, None),
        Some(name) => {
            let one = documents::state(name).ok_or_else(|| {
                let names: Vec<&str> = LeaseState::ALL.iter().map(|one| one.name()).collect();
                let what = format!("{name:?}: expected open, {}", names.join(", "));
                Problem::invalid("state", what)
            })?;
            (false, Some(one))
        }
    };
    Ok(move |state: LeaseState| {
        !(open && state.is_over()) && one.is_none_or(|wanted| wanted == state)
    })
}

pub(crate) async fn release(call: Call) -> Result<Response, Problem> {
    let (number, tenant) = {
        let broker = call.shared.broker();
        let lease = seen(&call, &broker)?;
        (lease.number, lease.ask.tenant.clone())
    };
    let command = Command::Release(number, "released".into());
    let origin = call.origin(gpuwise_broker::lease_id(number), Some(&tenant))?;
    call.shared.ask_for(origin, command).await?;
    answered(&call, number, StatusCode::ACCEPTED)
}

pub(crate) async fn explain(call: Call) -> Result<Response, Problem> {
    let number = seen(&call, &call.shared.broker())?.number;
    let Answer::Explanation(why) = call.shared.ask(Command::Explain(number)).await? else {
        return Err(unsized_lease());
    };
    let broker = call.shared.broker();
    let lease = seen(&call, &broker)?;
    let document = documents::lease(&broker, call.now(), lease);
    let placed = !lease.place.is_empty();
    let reason = match document.reason {
        Some(reason) if why.reason.is_empty() => reason,
        Some(reason) => format!("{}; {reason}", why.reason),
        None if why.reason.is_empty() => placed_words(lease),
        None => why.reason,
    };
    let reason = match broker.at_risk(lease.number) {
        Some(risk) => format!("{reason}; its priority is raised: {}", risk.reason),
        None => reason,
    };
    let reason = match super::scaling::words(&broker, lease) {
        Some(words) => format!("{reason}; {words}"),
        None => reason,
    };
    let reason = match call.shared.remains.of(lease.number) {
        Some(words) => format!("{reason}; it waits for {words}"),
        None => reason,
    };
    let queued = call.shared.queued.of(lease.number);
    let reason = match &queued {
        Some(one) => format!("{reason}; {}", one.words()),
        None => reason,
    };
    let answer = ExplanationAnswer {
        id: document.id,
        state: document.state,
        since: document.since,
        reason,
        expected_start: why.start.map(documents::time),
        fixes: why.fixes,
        scaling: super::scaling::answer(&broker, lease),
        queued,
        candidates: placed.then_some(lease.candidates),
        weighed: lease
            .weighed
            .iter()
            .map(|(name, score)| WeighedAnswer {
                name: name.clone(),
                score: *score,
            })
            .collect(),
    };
    Ok(json(StatusCode::OK, &answer))
}

fn placed_words(lease: &Lease) -> String {
    match lease.candidates {
        0 => "it has its place".into(),
        1 => "one node had room, and it got that".into(),
        nodes => format!("{nodes} nodes had room, and its node scored best"),
    }
}
