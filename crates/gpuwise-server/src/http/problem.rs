//! Problems as they are answered (RFC 9457).

use crate::message::Failure;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use gpuwise_broker::Refusal;
use gpuwise_wire::broker::ProblemAnswer;

/// Where kinds of problems are described.
const KINDS: &str = "https://gpuwise.dev/problems/";

/// Seconds after which a line that is full is worth another try.
const LINE: u32 = 60;

#[derive(Debug)]
pub(crate) struct Problem(Box<ProblemAnswer>, Option<u32>);

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Problem");
        Self(
            Box::new(ProblemAnswer {
                kind: format!("{KINDS}{kind}"),
                title: title.to_owned(),
                status: status.as_u16(),
                detail: detail.into(),
                field: None,
            }),
            None,
        )
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    pub(crate) fn invalid(field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).of(field)
    }

    /// As it is answered.
    pub(crate) fn document(self) -> ProblemAnswer {
        *self.0
    }

    fn of(mut self, field: &str) -> Self {
        self.0.field = Some(field.to_owned());
        self
    }

    /// With what clients of OpenAI's API look for beside it.
    pub(crate) fn into_openai(self) -> Response {
        let (problem, later) = (self.0, self.1);
        let code = problem
            .kind
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let error =
            serde_json::json!({"message": problem.detail, "type": problem.title, "code": code});
        let mut whole = serde_json::to_value(&*problem).unwrap_or_default();
        whole["error"] = error;
        let text = whole.to_string();
        Self(problem, later).response(text)
    }

    fn response(self, text: String) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let form = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, form, text + "\n").into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.1 {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }

    /// It may go better after so many seconds.
    pub(crate) fn later(mut self, seconds: u32) -> Self {
        self.1 = Some(seconds);
        self
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let (status, kind) = match &refusal {
            Refusal::Invalid { field, problem } => return Self::invalid(field, problem.as_str()),
            Refusal::NoSuchTenant(_)
            | Refusal::NoSuchLease(_)
            | Refusal::NoSuchToken(_)
            | Refusal::NoSuchReservation(_)
            | Refusal::NoSuchNode(_)
            | Refusal::NoSuchSecret { .. }
            | Refusal::NoSuchSlo(_)
            | Refusal::NoSuchProposal(_) => (StatusCode::NOT_FOUND, "not-found"),
            Refusal::Decided(_) => (StatusCode::CONFLICT, "decided"),
            Refusal::TenantExists(_) | Refusal::TokenExists(_) | Refusal::ReservationExists(_) => {
                (StatusCode::CONFLICT, "exists")
            }
            Refusal::PolicyChanged => (StatusCode::PRECONDITION_FAILED, "changed"),
            Refusal::NodeInUse { .. } => (StatusCode::CONFLICT, "in-use"),
            Refusal::LeaseOver(_) => (StatusCode::CONFLICT, "over"),
            Refusal::Infeasible(_) => (StatusCode::UNPROCESSABLE_ENTITY, "infeasible"),
            Refusal::NotPromised(_) => (StatusCode::UNPROCESSABLE_ENTITY, "promise"),
            Refusal::Budget { .. } => (StatusCode::FORBIDDEN, "budget"),
            Refusal::Suspended(_) => (StatusCode::FORBIDDEN, "suspended"),
            Refusal::Unpriced { .. } => (StatusCode::FORBIDDEN, "unpriced"),
            Refusal::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "key-reused"),
            Refusal::TooManyWait { .. } => {
                return Self::new(StatusCode::TOO_MANY_REQUESTS, "waiting", detail).later(LINE);
            }
            // One more may be told each second.
            Refusal::TooManyRecords { .. } => {
                return Self::new(StatusCode::TOO_MANY_REQUESTS, "records", detail).later(1);
            }
            // To wait does not help.
            Refusal::TooManyAside { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "records"),
            Refusal::Full => (StatusCode::INSUFFICIENT_STORAGE, "full"),
        };
        Self::new(status, kind, detail)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Store(error) => {
                let detail = format!("nothing was done: {error}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store", detail).later(5)
            }
            Failure::Unsure(error) => {
                let detail = format!(
                    "it is not known whether it was done; ask again with the same Idempotency-Key: {error}"
                );
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-unsure", detail).later(5)
            }
            Failure::Clock(error) => {
                let detail = format!("nothing was done: {error}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "clock", detail).later(5)
            }
            Failure::Closed => {
                let detail = "nothing was done: the broker is stopping";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail).later(5)
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = serde_json::to_string(&*self.0).unwrap_or_default();
        self.response(text)
    }
}
