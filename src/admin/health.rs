//! `/live` and `/ready`

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::auth::role;
use super::problem::Problem;
use crate::finding::Finding;

/// Whether all is well.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"ready": true, "parts": [
    {"part": "rabbitmq", "state": "ok", "detail": "connected: declare, intake and release"}]}))]
pub(super) struct Readiness {
    ready: bool,
    /// Every part with its grade and what to do; absent for those who may not see it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<PartView>,
}

/// One part of xdelay, or of what it needs.
#[derive(Serialize, ToSchema)]
pub(super) struct PartView {
    part: String,
    /// `ok`, `warning` or `FAILED`.
    state: String,
    /// What is wrong, and what mends it.
    detail: String,
}

impl From<Finding> for PartView {
    fn from(finding: Finding) -> Self {
        Self { part: finding.subject, state: finding.grade.to_string(), detail: finding.detail }
    }
}

/// Whether the process runs
#[utoipa::path(get, path = "/live", tag = "health", security(()),
    responses((status = 200, body = String, example = "live\n"),
        (status = 403, body = Problem, description = "The Host is another site's")))]
pub(super) async fn live() -> &'static str {
    "live\n"
}

/// Whether all is well, and what is not
#[utoipa::path(get, path = "/ready", tag = "health", security((), ("token" = [])),
    responses((status = 200, body = Readiness, description = "All is well"),
        (status = 403, body = Problem, description = "The Host is another site's"),
        (status = 503, body = Readiness, description = "Some part failed")))]
pub(super) async fn ready(
    Extract(state): Extract<Arc<State>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Readiness>) {
    let ready = state.health.is_ready();
    let mut parts = Vec::new();
    if role(&state, &headers).is_some() {
        parts.extend(state.health.findings().into_iter().map(PartView::from));
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready, parts }))
}
