//! `/metrics`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Extract;
use axum::http::header;
use axum::response::IntoResponse;
use tokio::time::timeout;

use super::State;
use super::problem::AnyProblem;

/// What Prometheus expects of the text that the registry writes.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A scrape must answer even while the store does not: then the gauges are the last ones seen.
const CENSUS_WITHIN: Duration = Duration::from_secs(2);

/// Counters, gauges and histograms for Prometheus; gauges are read from the store at this moment
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "application/openmetrics-text",
        example = "xdelay_parked{broker=\"amqp\",destination=\"orders\"} 3\n"), AnyProblem))]
pub(super) async fn metrics(Extract(state): Extract<Arc<State>>) -> impl IntoResponse {
    let counting = async {
        for destination in state.destinations.all() {
            if let Ok(census) = state.store.census(&destination).await {
                state.metrics.show_census(&destination, &census, state.dead_max);
            }
        }
    };
    let _ = timeout(CENSUS_WITHIN, counting).await;
    state.metrics.show_health(&state.health.findings());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], state.metrics.render())
}
