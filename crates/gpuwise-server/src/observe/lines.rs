//! A line of JSON for each request, for programs that collect logs.

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;
use std::{
    io::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The header by which a request is known in logs of all who handle it.
pub(crate) const HEADER: &str = "x-request-id";

/// Characters of such an id at most.
const LONGEST: usize = 128;

/// The id that a request comes with, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(HEADER).filter(|value| {
        let bytes = value.as_bytes();
        !bytes.is_empty() && bytes.len() <= LONGEST && bytes.iter().all(u8::is_ascii_graphic)
    });
    given.cloned().unwrap_or_else(|| {
        let mut bytes = [0_u8; 8];
        // Without chance it is an id all the same.
        let _ = getrandom::fill(&mut bytes);
        HeaderValue::from_str(&crate::token::hex(&bytes))
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    })
}

/// Where lines go; nowhere, unless asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines(pub(crate) bool);

/// What is said of a request.
pub(crate) struct Line<'a> {
    pub(crate) id: &'a HeaderValue,
    pub(crate) route: &'static str,
    pub(crate) path: &'a str,
    /// Who asked: the name of the token, and its tenant.
    pub(crate) who: Option<String>,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
}

impl Lines {
    pub(crate) fn write(self, line: &Line<'_>) {
        if !self.0 {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let time = jiff::Timestamp::from_nanosecond(i128::try_from(now.as_nanos()).unwrap_or(0));
        let text = json!({
            "time": time.map(|time| time.to_string()).unwrap_or_default(),
            "request": line.id.to_str().unwrap_or_default(),
            "route": line.route,
            "path": line.path,
            "token": line.who,
            "status": line.status.as_u16(),
            "ms": line.took.as_secs_f64() * 1e3,
        });
        // Nobody may read it any more.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}
