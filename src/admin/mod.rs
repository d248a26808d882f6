//! The admin HTTP API.
//!
//! | route | answer |
//! | --- | --- |
//! | `GET /live` | 200 as long as the process runs |
//! | `GET /ready` | 200 when all is well, else 503; every part with its state |
//! | `GET /metrics` | Prometheus text; gauges are read from the store at this moment |
//!
//! On an address that is not loopback a token is needed. `/live` and `/ready` answer without it,
//! for those who watch over the process, but then `/ready` tells no details.

mod auth;
mod health;
mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::config::Secret;
use crate::destinations::Destinations;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// What the routes look at.
pub struct State {
    /// The state of every part.
    pub health: Arc<Health>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// For gauges.
    pub store: Arc<dyn Store>,
    /// For gauges.
    pub destinations: Arc<Destinations>,
    /// What a request must carry, if anything.
    pub token: Option<Secret>,
}

/// Binds the address.
///
/// # Errors
/// When it cannot be had.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener, std::io::Error> {
    TcpListener::bind(listen).await
}

/// Serves until shutdown.
pub async fn serve(listener: TcpListener, state: Arc<State>, mut shutdown: Shutdown) {
    let routes = Router::new()
        .route("/live", get(health::live))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .with_state(state);
    let until = async move { shutdown.requested().await };
    if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(until).await {
        tracing::error!(%error, "the admin API ended");
    }
}
