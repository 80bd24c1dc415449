//! Entity tags: what a client saw, so that it changes nothing that it did not see.

use super::{Problem, call::Call, json as answer};
use crate::token::hex;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The tag of a document.
pub(crate) fn of(document: &impl Serialize) -> String {
    let text = serde_json::to_vec(document).unwrap_or_default();
    let mut digits = hex(&Sha256::digest(&text));
    digits.truncate(16);
    format!("\"{digits}\"")
}

/// A document with its tag; nothing but the tag where the client has it.
pub(crate) fn json(call: &Call, document: &impl Serialize, tag: &str) -> Response {
    let mut response = if named(call, "if-none-match", tag) {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        answer(StatusCode::OK, document)
    };
    put(&mut response, tag);
    response
}

pub(crate) fn put(response: &mut Response, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
}

/// Whether a change may be made: the client says what it saw, and it is so still; or it says nothing.
///
/// # Errors
/// When it is otherwise by now.
pub(crate) fn unchanged(call: &Call, tag: &str) -> Result<(), Problem> {
    if call.header("if-match").is_none() || named(call, "if-match", tag) {
        return Ok(());
    }
    let what = "it was changed meanwhile: look at it again, and then change it";
    Err(Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "changed",
        what,
    ))
}

fn named(call: &Call, header: &str, tag: &str) -> bool {
    let given = call.header(header).unwrap_or_default();
    given
        .split(',')
        .map(str::trim)
        .any(|one| one == tag || one == "*")
}
