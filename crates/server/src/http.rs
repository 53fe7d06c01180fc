//! `/metrics` and `/healthz`, on a listener of their own: what Prometheus and a supervisor ask.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::shared::Shared;

/// The pages.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(health)).with_state(shared)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let page = shared.metrics.page(&shared.gauges());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    match shared.admission.check_open() {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response(),
    }
}
