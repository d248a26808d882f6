//! `/metrics`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use tokio::time::timeout;

use super::State;
use super::auth::is_allowed;

/// What Prometheus expects of the text that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A scrape must answer even while the store does not: then the gauges are the last ones seen.
const CENSUS_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn metrics(
    Extract(state): Extract<Arc<State>>,
    headers: HeaderMap,
) -> impl IntoResponse {
    if !is_allowed(&state, &headers) {
        let why = "the token of admin.token_file is needed: Authorization: Bearer ...\n";
        return (StatusCode::UNAUTHORIZED, [(header::CONTENT_TYPE, "text/plain")], why.to_owned());
    }
    let counting = async {
        for destination in state.destinations.all() {
            if let Ok(census) = state.store.census(&destination).await {
                state.metrics.show_census(&destination, &census);
            }
        }
    };
    let _ = timeout(CENSUS_WITHIN, counting).await;
    state.metrics.show_health(&state.health.findings());
    (StatusCode::OK, [(header::CONTENT_TYPE, CONTENT_TYPE)], state.metrics.render())
}
