//! The fleet.

use super::{Problem, call::Call, documents, json};
use axum::{http::StatusCode, response::Response};

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let broker = call.shared.broker();
    let document = documents::fleet(&broker, call.now(), |tenant| call.sees(tenant));
    Ok(json(StatusCode::OK, &document))
}
