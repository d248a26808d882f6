//! `/live` and `/ready`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::State;
use super::auth::is_allowed;

/// The body of `/ready`.
#[derive(Serialize)]
pub(super) struct Readiness {
    ready: bool,
    /// Every part with its grade and what to do; absent for those who may not see it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    part: String,
    state: String,
    detail: String,
}

pub(super) async fn live() -> &'static str {
    "live\n"
}

pub(super) async fn ready(
    Extract(state): Extract<Arc<State>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Readiness>) {
    let ready = state.health.is_ready();
    let mut parts = Vec::new();
    if is_allowed(&state, &headers) {
        parts.extend(state.health.findings().into_iter().map(|finding| Part {
            part: finding.subject,
            state: finding.grade.to_string(),
            detail: finding.detail,
        }));
    }
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { ready, parts }))
}
