//! The admin HTTP API, and the web page that stands on it.
//!
//! | route | answer |
//! | --- | --- |
//! | `GET /live` | 200 as long as the process runs |
//! | `GET /ready` | 200 when all is well, else 503; every part with its state |
//! | `GET /metrics` | Prometheus text; gauges are read from the store at this moment |
//! | `/v1/...` | what is parked, and steps to change it; `GET /openapi.json` has all of it |
//! | `GET /` | the web page |
//!
//! On an address that is not loopback a token is needed: one to change, another to look. `/live`
//! and `/ready` answer without it, for those who watch over the process, but then `/ready` tells
//! no details; the page's own files and the OpenAPI file hold nothing to protect.

mod audit;
mod auth;
mod bulk;
mod connections;
mod destinations;
mod extract;
mod filter;
mod guard;
mod health;
mod history;
mod lookup;
mod messages;
mod metrics;
mod page;
mod park;
mod problem;
mod stats;
mod steer;
mod time;
mod view;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router, middleware};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::problem::Problem;
use self::words::Token;
use crate::broker::Broker;
use crate::clock::StoreClock;
use crate::config::Secret;
use crate::dead::DeadMax;
use crate::destinations::Destinations;
use crate::health::Health;
use crate::history::History;
use crate::message::Destination;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::store::Steer;

/// Requests that are worked on at once; others wait for their turn.
pub const TURNS: usize = 16;
/// Request bodies that are read at once.
pub const BODIES: usize = 32;
/// Callers that may watch events at once.
pub const WATCHERS: usize = 64;
/// Longest request body: a message of the usual size and its headers.
const BODY_BYTES_MAX: usize = 4 << 20;

/// What the routes look at.
pub struct State {
    /// The state of every part.
    pub health: Arc<Health>,
    /// Counters, and what happened lately.
    pub metrics: Arc<Metrics>,
    /// What is parked.
    pub store: Arc<dyn Steer>,
    /// All there are.
    pub destinations: Arc<Destinations>,
    /// Know those that messages may be parked for.
    pub brokers: Vec<Arc<dyn Broker>>,
    /// The store's.
    pub clock: Arc<StoreClock>,
    /// `release.dead_max`
    pub dead_max: DeadMax,
    /// `delay.max`
    pub max_delay_ms: u64,
    /// What a request must carry, if anything.
    pub token: Option<Secret>,
    /// What a request that only looks may carry instead.
    pub read_token: Option<Secret>,
    /// Whether bodies are shown.
    pub previews: bool,
    /// Whether it listens on loopback.
    pub loopback: bool,
    /// Ends what lasts as long as its caller listens.
    pub shutdown: Shutdown,
    /// One for each request that is worked on.
    pub turns: Semaphore,
    /// One for each body that is read.
    pub bodies: Semaphore,
    /// One for each caller that watches events.
    pub watchers: Arc<Semaphore>,
}

impl State {
    fn history(&self) -> &History {
        self.metrics.history()
    }

    /// Whether messages may be parked for it: it is configured, or the proxy has met it.
    fn is_served(&self, destination: &Destination) -> bool {
        self.brokers.iter().any(|broker| broker.destinations().contains(destination))
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "xdelay", description = "Look at delayed messages, and steer them."),
    modifiers(&Token),
    security(("token" = [])),
    tags((name = "overview", description = "What is going on"),
        (name = "messages", description = "One message, or many"),
        (name = "destinations", description = "Whole destinations"),
        (name = "health", description = "For those who watch over the process"))
)]
struct Description;

/// Binds the address.
///
/// # Errors
/// When it cannot be had.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener, std::io::Error> {
    TcpListener::bind(listen).await
}

/// Serves until shutdown.
pub async fn serve(listener: TcpListener, state: Arc<State>, shutdown: Shutdown) {
    connections::serve(listener, router(&state), shutdown).await;
}

async fn not_so() -> Problem {
    let why = "not with this method; GET /openapi.json lists what there is";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", why)
}

async fn nowhere() -> Problem {
    Problem::unknown("there is nothing at this path; GET /openapi.json lists what there is")
}

fn router(state: &Arc<State>) -> Router {
    let (open, open_api) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .split_for_parts();
    let (closed, api) = OpenApiRouter::with_openapi(open_api)
        .routes(routes!(metrics::metrics))
        .routes(routes!(stats::stats))
        .routes(routes!(stats::backlog))
        .routes(routes!(history::history))
        .routes(routes!(history::events))
        .routes(routes!(messages::list, park::park))
        .routes(routes!(messages::show, steer::cancel))
        .routes(routes!(steer::release))
        .routes(routes!(steer::reschedule))
        .routes(routes!(steer::revive))
        .routes(routes!(steer::bury))
        .routes(routes!(bulk::bulk))
        .routes(routes!(destinations::pause))
        .routes(routes!(destinations::resume))
        .split_for_parts();
    let api = Arc::new(api);
    let described = get(move || async move { Json(api.as_ref().clone()) });
    let closed = closed
        .layer(middleware::from_fn(audit::know_caller))
        .layer(middleware::from_fn_with_state(Arc::clone(state), auth::require_store))
        .layer(middleware::from_fn_with_state(Arc::clone(state), connections::take_body))
        .layer(middleware::from_fn_with_state(Arc::clone(state), auth::require_role));
    open.merge(closed)
        .route("/openapi.json", described)
        .merge(page::routes())
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(state), guard::keep_strangers_out))
        .with_state(Arc::clone(state))
}
