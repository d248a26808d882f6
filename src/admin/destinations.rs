//! Pause and resume: hold back all that is due for a destination, on every replica.

use std::sync::Arc;

use axum::extract::State as Extract;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::State;
use super::audit::{Audit, Caller};
use super::extract::{Path, Query};
use super::lookup;
use super::problem::{AnyProblem, MessageProblem, Problem};
use super::words::BrokerWord;

/// Which broker's.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Of {
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[param(value_type = Option<BrokerWord>, inline)]
    broker: Option<String>,
}

/// How it is now.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"destination": "orders", "paused": true}))]
pub(super) struct Standing {
    destination: String,
    paused: bool,
}

/// Pause a destination: what is due waits, what is captured is parked as ever
#[utoipa::path(post, path = "/v1/destinations/{name}/pause", tag = "destinations", params(Of,
    ("name" = String, Path, description = "The exchange or topic")),
    responses((status = 200, body = Standing), AnyProblem, MessageProblem))]
pub(super) async fn pause(
    extract: Extract<Arc<State>>,
    caller: Extension<Caller>,
    path: Path<String>,
    query: Query<Of>,
) -> Result<Json<Standing>, Problem> {
    set(extract, caller, path, query, true).await
}

/// Resume a paused destination
#[utoipa::path(post, path = "/v1/destinations/{name}/resume", tag = "destinations", params(Of,
    ("name" = String, Path, description = "The exchange or topic")),
    responses((status = 200, body = Standing), AnyProblem, MessageProblem))]
pub(super) async fn resume(
    extract: Extract<Arc<State>>,
    caller: Extension<Caller>,
    path: Path<String>,
    query: Query<Of>,
) -> Result<Json<Standing>, Problem> {
    set(extract, caller, path, query, false).await
}

async fn set(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
    paused: bool,
) -> Result<Json<Standing>, Problem> {
    let destination = lookup::destination(&state, &name, of.broker.as_deref())?;
    state.store.pause(&destination, paused).await?;
    let step = if paused { "paused" } else { "resumed" };
    Audit { caller: &caller, step }.destination(&destination);
    if let Some(alarm) = state.destinations.alarm(&destination) {
        alarm.ring();
    }
    Ok(Json(Standing { destination: name, paused }))
}
