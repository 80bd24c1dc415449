//! Answers in the form of the request: `ExportMetricsServiceResponse`, or `google.rpc.Status`.

use super::{
    Form, Shared,
    request::{self, Refusal},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};

/// `INVALID_ARGUMENT` of google.rpc.Code.
const INVALID_ARGUMENT: u64 = 3;

/// Takes a request and answers it.
pub(super) async fn of<T>(shared: &Shared<T>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let form = request::form(&request);
    let shown = form.as_ref().copied().unwrap_or(Form::Json);
    let taken = match request::body(request, shared.limits).await {
        Ok(body) => form.and_then(|form| take(shared, form, &body)),
        Err(refusal) => Err(refusal),
    };
    match taken {
        Ok(rejected) => response(StatusCode::OK, shown, accepted(shown, rejected)),
        Err((status, why)) => response(status, shown, refused(shown, &why)),
    }
}

fn take<T>(shared: &Shared<T>, form: Form, body: &[u8]) -> Result<u64, Refusal> {
    let decoded = (shared.decode)(form, body).map_err(|error| (StatusCode::BAD_REQUEST, error))?;
    shared.keep(decoded.value);
    Ok(decoded.rejected)
}

fn response(status: StatusCode, form: Form, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = match form {
        Form::Json => "application/json",
        Form::Protobuf => "application/x-protobuf",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if status != StatusCode::OK {
        // What is left of the request may be anything.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

const TOO_MANY: &str = "a request has too many metrics: the rest is not taken";

/// Empty where all was taken, as the specification asks.
fn accepted(form: Form, rejected: u64) -> Vec<u8> {
    match form {
        Form::Json if rejected == 0 => b"{}".to_vec(),
        Form::Json => serde_json::json!({"partialSuccess": {
            "rejectedDataPoints": rejected.to_string(), "errorMessage": TOO_MANY,
        }})
        .to_string()
        .into_bytes(),
        Form::Protobuf if rejected == 0 => Vec::new(),
        Form::Protobuf => {
            let mut partial = number(1, rejected);
            partial.extend(bytes(2, TOO_MANY.as_bytes()));
            bytes(1, &partial)
        }
    }
}

fn refused(form: Form, why: &str) -> Vec<u8> {
    match form {
        Form::Json => serde_json::json!({"code": INVALID_ARGUMENT, "message": why})
            .to_string()
            .into_bytes(),
        Form::Protobuf => {
            let mut status = number(1, INVALID_ARGUMENT);
            status.extend(bytes(2, why.as_bytes()));
            status
        }
    }
}

/// A number as protobuf writes it: seven bits a byte, the lowest first.
fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = varint(field << 3);
    out.extend(varint(value));
    out
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    let mut out = varint(field << 3 | 2);
    out.extend(varint(value.len() as u64));
    out.extend(value);
    out
}
