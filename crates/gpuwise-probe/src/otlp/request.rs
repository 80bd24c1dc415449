//! What a request must be before its body is read: where it is posted, in which form, how large.

use super::{Form, Limits};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::{Method, Request, StatusCode, body::Incoming, header};
use std::io::Read as _;

/// A status to refuse a request with, and why.
pub(super) type Refusal = (StatusCode, String);

/// The form that a request's content type names; JSON where it names none.
pub(super) fn form(request: &Request<Incoming>) -> Result<Form, Refusal> {
    let kind = text(request, &header::CONTENT_TYPE);
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(Form::Json),
        "application/x-protobuf" | "application/protobuf" => Ok(Form::Protobuf),
        other => Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("{other:?} is neither application/x-protobuf nor application/json"),
        )),
    }
}

fn text(request: &Request<Incoming>, name: &header::HeaderName) -> String {
    let value = request.headers().get(name);
    let value = value.and_then(|value| value.to_str().ok());
    value.unwrap_or_default().trim().to_owned()
}

/// The body of a request for metrics, unpacked.
pub(super) async fn body(request: Request<Incoming>, limits: Limits) -> Result<Bytes, Refusal> {
    if request.uri().path() != "/v1/metrics" {
        let what = "metrics are posted to /v1/metrics";
        return Err((StatusCode::NOT_FOUND, what.into()));
    }
    if request.method() != Method::POST {
        let what = "metrics are posted".into();
        return Err((StatusCode::METHOD_NOT_ALLOWED, what));
    }
    let packed = match text(&request, &header::CONTENT_ENCODING)
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "identity" => false,
        "gzip" => true,
        other => {
            let what = format!("a body packed by {other:?} is not read: gzip or none");
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
    };
    let headers = request.headers();
    let sized = headers.contains_key(header::CONTENT_LENGTH);
    if !sized && !headers.contains_key(header::TRANSFER_ENCODING) {
        let what = "the body says no length".into();
        return Err((StatusCode::LENGTH_REQUIRED, what));
    }
    let length: u64 = text(&request, &header::CONTENT_LENGTH).parse().unwrap_or(0);
    if length > limits.body as u64 {
        return Err(too_large(limits));
    }
    let read = Limited::new(request.into_body(), limits.body).collect();
    let body = match tokio::time::timeout(limits.patience, read).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_large(limits)),
        Ok(Err(error)) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
        Err(_) => {
            let what = "the body came too slowly".into();
            return Err((StatusCode::REQUEST_TIMEOUT, what));
        }
    };
    if packed {
        unpacked(&body, limits)
    } else {
        Ok(body)
    }
}

fn too_large(limits: Limits) -> Refusal {
    let what = format!("a body has at most {} bytes, unpacked", limits.body);
    (StatusCode::PAYLOAD_TOO_LARGE, what)
}

fn unpacked(body: &[u8], limits: Limits) -> Result<Bytes, Refusal> {
    let mut out = Vec::new();
    let mut reader = MultiGzDecoder::new(body).take(limits.body as u64 + 1);
    match reader.read_to_end(&mut out) {
        Ok(_) if out.len() > limits.body => Err(too_large(limits)),
        Ok(_) => Ok(out.into()),
        Err(error) => Err((StatusCode::BAD_REQUEST, format!("no gzip: {error}"))),
    }
}
