//! `external.metrics.k8s.io/v1beta1`: how many replicas a service is to have, for Kubernetes' own autoscaler.
//!
//! The API server passes on what an autoscaler asks, by an `APIService` that names us. The one metric is
//! [`METRIC`]; a label says whose. Paths and documents: `k8s.io/metrics`, `pkg/apis/external_metrics/v1beta1`.

use super::{
    grpc::METRIC,
    objects::{Objects, Refused},
    service::Wrong,
};
use crate::http::call;
use axum::{
    Router,
    extract::{Path, RawQuery},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::{Value, json};
use std::sync::Arc;

const VERSION: &str = "external.metrics.k8s.io/v1beta1";
/// The label that says whose replicas.
const LABEL: &str = "service";

/// Answers the API server.
pub(super) fn router(objects: Arc<Objects>) -> Router {
    let base = format!("/apis/{VERSION}");
    let values = move |Path((namespace, metric)): Path<(String, String)>,
                       RawQuery(asked): RawQuery| {
        let objects = Arc::clone(&objects);
        async move {
            let mut asked = call::query(&asked.unwrap_or_default());
            let selector = asked.remove("labelSelector").unwrap_or_default();
            // The source may have to be waited for.
            let answer = move || values(&objects, &namespace, &metric, &selector);
            match tokio::task::spawn_blocking(answer).await {
                Ok(Ok(list)) => said(StatusCode::OK, &list),
                Ok(Err(failure)) => failure.into_response(),
                Err(_) => Failure::internal().into_response(),
            }
        }
    };
    Router::new()
        .route(&base, get(async || said(StatusCode::OK, &resources())))
        .route(
            &format!("{base}/namespaces/{{namespace}}/{{metric}}"),
            get(values),
        )
        .route("/healthz", get(async || "ok"))
        .fallback(async || {
            let message = format!("there is nothing here but /apis/{VERSION}");
            Failure::new(StatusCode::NOT_FOUND, "NotFound", message).into_response()
        })
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": VERSION,
        "resources": [{
            "name": METRIC,
            "singularName": "",
            "namespaced": true,
            "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        }],
    })
}

fn said(code: StatusCode, document: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (code, kind, document.to_string()).into_response()
}

/// Whose replicas are asked for: the selector is `service=NAME`, or `service==NAME`, which is the same.
fn name(selector: &str) -> Option<&str> {
    let (label, name) = selector.split_once('=')?;
    let name = name.strip_prefix('=').unwrap_or(name).trim();
    (label.trim() == LABEL && !name.is_empty() && !name.contains(',')).then_some(name)
}

fn values(
    objects: &Objects,
    namespace: &str,
    metric: &str,
    selector: &str,
) -> Result<Value, Failure> {
    if metric != METRIC {
        let message = format!("there is no metric {metric:?}; expected {METRIC:?}");
        return Err(Failure::new(StatusCode::NOT_FOUND, "NotFound", message));
    }
    let name = name(selector).ok_or_else(|| {
        let message = format!(
            "the selector is {selector:?}; expected {LABEL}=NAME (matchLabels: {{{LABEL}: NAME}})"
        );
        Failure::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    })?;
    let replicas = objects.replicas_of(namespace, name)?;
    Ok(json!({
        "kind": "ExternalMetricValueList",
        "apiVersion": VERSION,
        "metadata": {},
        "items": [{
            "metricName": METRIC,
            "metricLabels": {LABEL: name},
            "timestamp": super::now().to_string(),
            "value": replicas.to_string(),
        }],
    }))
}

/// An error as Kubernetes says one.
struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Failure {
    const fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            code,
            reason,
            message,
        }
    }

    fn internal() -> Self {
        let code = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(code, "InternalError", "the answer was cut off".into())
    }

    fn into_response(self) -> Response {
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": self.reason,
            "message": self.message,
            "code": self.code.as_u16(),
        });
        said(self.code, &status)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::Wrong {
                why: Wrong::Unknown,
                object,
            } => {
                let message = format!("{object}: neither a file of services nor KEDA named it");
                Self::new(StatusCode::NOT_FOUND, "NotFound", message)
            }
            Refused::Wrong { .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            }
            Refused::TooMany => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            }
            // The autoscaler leaves what there is.
            Refused::NotYet { .. } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                message,
            ),
        }
    }
}
