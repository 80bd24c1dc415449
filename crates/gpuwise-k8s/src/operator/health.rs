//! `/healthz`, `/readyz` and `/metrics`, in plain HTTP.

use super::metrics::Metrics;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use std::{io, sync::Arc};
use tokio::net::TcpListener;

pub(super) async fn serve(listener: TcpListener, metrics: Arc<Metrics>) -> io::Result<()> {
    let app = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .with_state(metrics);
    axum::serve(listener, app).await
}

/// Ready is who has seen the cluster, whether it leads or not: the webhook is asked of both.
async fn ready(State(metrics): State<Arc<Metrics>>) -> (StatusCode, &'static str) {
    if metrics.is_synced() {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the cluster is not read yet",
        )
    }
}

async fn text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        metrics.text(),
    )
}
