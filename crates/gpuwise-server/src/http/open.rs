//! What anybody may ask.

use super::{Problem, call::Call};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use std::sync::atomic::Ordering;

pub(crate) async fn health(_call: Call) -> Result<Response, Problem> {
    Ok("ok\n".into_response())
}

pub(crate) async fn ready(call: Call) -> Result<Response, Problem> {
    if call.shared.ready.load(Ordering::Relaxed) {
        Ok("ready\n".into_response())
    } else {
        let detail = "the broker is stopping";
        Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            detail,
        ))
    }
}

pub(crate) async fn openapi(call: Call) -> Result<Response, Problem> {
    let form = [(header::CONTENT_TYPE, "application/json")];
    Ok((form, call.shared.openapi.clone()).into_response())
}
