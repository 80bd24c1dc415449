//! Secrets of tenants: set, listed by name, removed. No answer has their values.

use super::{Problem, call::Call, documents::time, json};
use crate::{message::Command, secrets};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::Refusal;
use gpuwise_wire::broker::{LeaseAsk, SecretAnswer, SecretAsk, SecretList};
use std::io;

/// Whether leases of an executor get secrets.
fn has_secrets(executor: &str) -> bool {
    matches!(executor, "local" | "simulated")
}

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let seen = broker.secrets().filter(|one| call.sees(one.tenant));
    let items = seen.map(|one| SecretAnswer {
        name: one.name.to_owned(),
        tenant: one.tenant.to_owned(),
        set_at: time(one.set),
    });
    let items = items.collect();
    Ok(json(StatusCode::OK, &SecretList { items }))
}

/// The tenant and the name of the path, where the caller may see that tenant.
fn named(call: &Call) -> Result<(String, String), Problem> {
    let tenant = call.parameter("tenant").to_owned();
    if !call.sees(&tenant) {
        return Err(Refusal::NoSuchTenant(tenant).into());
    }
    Ok((tenant, call.parameter("secret").to_owned()))
}

fn unkept(error: &io::Error) -> Problem {
    let detail = format!("the secret's file cannot be written: {error}");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store", detail).later(5)
}

fn done() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let (tenant, name) = named(&call)?;
    // What was wrong with the body is not repeated: it may be the value.
    let ask: SecretAsk = call.document().map_err(|_| {
        let what =
            "expected an object of one field, \"secret\", that is text without the character NUL";
        Problem::invalid("body", what)
    })?;
    let executor = call.shared.executor;
    if !has_secrets(executor) {
        let what = format!("leases of --executor {executor} get no secrets from the broker");
        return Err(Problem::invalid("secret", what));
    }
    if ask.secret.is_empty() || ask.secret.len() > secrets::LARGEST {
        let what = format!("expected 1 to {} bytes", secrets::LARGEST);
        return Err(Problem::invalid("secret", what));
    }
    call.shared.broker().may_keep(&tenant, &name)?;
    let written = (call.shared.secrets).write(&tenant, &name, &ask.secret);
    let written = written.map_err(|error| unkept(&error))?;
    let mut origin = call.origin(&*name, Some(&tenant))?;
    // A hash of what is asked would be one of the value.
    origin.key = None;
    let command = Command::SetSecret(tenant, name);
    call.shared.ask_for(origin, command).await?;
    written.take().map_err(|error| unkept(&error))?;
    Ok(done())
}

pub(crate) async fn remove(call: Call) -> Result<Response, Problem> {
    let (tenant, name) = named(&call)?;
    let origin = call.origin(&*name, Some(&tenant))?;
    let command = Command::RemoveSecret(tenant.clone(), name.clone());
    call.shared.ask_for(origin, command).await?;
    let removed = call.shared.secrets.remove(&tenant, &name);
    removed.map_err(|error| unkept(&error))?;
    Ok(done())
}

/// Whether what a lease says of its secrets can be; that its tenant has them, the broker says.
pub(super) fn checked(ask: &LeaseAsk, executor: &str) -> Result<(), Problem> {
    if ask.secrets.is_empty() {
        return Ok(());
    }
    let wrong = |what: String| Err(Problem::invalid("secrets", what));
    if !has_secrets(executor) {
        return wrong(format!(
            "leases of --executor {executor} get no secrets from the broker: leave them out"
        ));
    }
    if ask.command.is_empty() {
        return wrong("no command is there that they could be for".into());
    }
    for variable in ask.secrets.keys() {
        let plain = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let named = variable.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_');
        if !named || !variable.chars().all(plain) || variable.starts_with("GPUWISE_") {
            return wrong(format!("{variable:?} cannot be a variable of a secret"));
        }
        if ask.env.contains_key(variable) {
            return wrong(format!("{variable} is in env, too"));
        }
    }
    Ok(())
}
