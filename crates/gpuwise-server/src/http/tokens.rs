//! Tokens.

use super::{Problem, call::Call, documents, json};
use crate::{
    message::{Answer, Command},
    token,
};
use axum::{http::StatusCode, response::Response};
use gpuwise_broker::{Refusal, Token};
use gpuwise_wire::broker::{Role, TokenAnswer, TokenAsk, TokenDocument, TokenList};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let mut items: Vec<TokenAnswer> = broker
        .tokens()
        .filter(|token| manages(&call, token.tenant.as_deref()))
        .map(answer)
        .collect();
    items.sort_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name)));
    Ok(json(StatusCode::OK, &TokenList { items }))
}

/// Whether whoever asks may make and revoke tokens of a tenant.
fn manages(call: &Call, tenant: Option<&str>) -> bool {
    match call.tenant() {
        None => call.role() == Role::Administrator,
        Some(own) => tenant == Some(own),
    }
}

fn answer(token: &Token) -> TokenAnswer {
    TokenAnswer {
        name: token.name.clone(),
        role: token.role,
        tenant: token.tenant.clone(),
        expires_at: token.expires.map(documents::time),
        token: None,
    }
}

pub(crate) async fn create(call: Call) -> Result<Response, Problem> {
    let mut ask: TokenAsk = call.document()?;
    if ask.tenant.is_none() {
        ask.tenant = call.tenant().map(ToOwned::to_owned);
    }
    if !manages(&call, ask.tenant.as_deref()) {
        let tenant = ask.tenant.unwrap_or_default();
        return Err(Refusal::NoSuchTenant(tenant).into());
    }
    let length = ask.length.as_deref();
    let length = length
        .map(|text| call.shared.desk.span("for", text))
        .transpose()?;
    let secret = token::draw().map_err(|error| {
        let detail = format!("no token can be drawn: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })?;
    let document = TokenDocument {
        name: ask.name,
        hash: token::hash(&secret),
        role: ask.role,
        tenant: ask.tenant,
        expires_ns: length.map(|length| (call.now() + length).0),
    };
    let made = TokenAnswer {
        name: document.name.clone(),
        role: document.role,
        tenant: document.tenant.clone(),
        expires_at: document
            .expires_ns
            .map(|end| documents::time(gpuwise_units::Nanoseconds(end))),
        token: Some(secret),
    };
    let origin = call.origin(&*made.name, made.tenant.as_deref())?;
    match call
        .shared
        .ask_for(origin, Command::AddToken(document))
        .await?
    {
        // It was said when it was made, and is known by its hash alone.
        Answer::Known => Ok(json(
            StatusCode::OK,
            &TokenAnswer {
                token: None,
                ..made
            },
        )),
        _ => Ok(json(StatusCode::CREATED, &made)),
    }
}

/// The tenant whose token has this name, where none was named and no token without a tenant has it.
fn of_another(call: &Call, name: &str, tenant: Option<&str>) -> Option<String> {
    let broker = call.shared.broker();
    let same = || broker.tokens().filter(|token| token.name == name);
    if tenant.is_some() || same().any(|token| token.tenant.is_none()) {
        return None;
    }
    same().find_map(|token| token.tenant.clone())
}

pub(crate) async fn revoke(call: Call) -> Result<Response, Problem> {
    let tenant = call
        .query("tenant")
        .or(call.tenant())
        .map(ToOwned::to_owned);
    let name = call.parameter("name").to_owned();
    if !manages(&call, tenant.as_deref()) {
        return Err(Refusal::NoSuchToken(name).into());
    }
    if let Some(other) = of_another(&call, &name, tenant.as_deref()) {
        let what = format!("the token {name:?} is of tenant {other:?}: name the tenant, too");
        return Err(Problem::invalid("tenant", what));
    }
    let origin = call.origin(&*name, tenant.as_deref())?;
    let command = Command::RevokeToken(name, tenant);
    call.shared.ask_for(origin, command).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
