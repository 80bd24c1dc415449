//! What anybody may ask.

use super::{Problem, call::Call, routes::Route};
use crate::standing::Standing;
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

pub(crate) async fn health(_call: Call) -> Result<Response, Problem> {
    Ok("ok\n".into_response())
}

pub(crate) async fn ready(call: Call) -> Result<Response, Problem> {
    match unready(&call.shared.standing) {
        None => Ok("ready\n".into_response()),
        Some(problem) => Err(problem),
    }
}

/// Why the daemon is not ready; `None`: it is.
fn unready(standing: &Standing) -> Option<Problem> {
    let (kind, detail) = standing.problem()?;
    Some(Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail).later(1))
}

/// What is answered while there is no state to answer from.
pub(crate) fn closed(standing: &Standing, route: &Route) -> Response {
    let stopping = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "starting", "it starts now");
    match route.id {
        "health" => "ok\n".into_response(),
        _ => route.answer(unready(standing).unwrap_or_else(stopping)),
    }
}

pub(crate) async fn openapi(call: Call) -> Result<Response, Problem> {
    let form = [(header::CONTENT_TYPE, "application/json")];
    Ok((form, call.shared.openapi.clone()).into_response())
}
