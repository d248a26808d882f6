//! `POST /v1/messages`: parks a message without any client of a broker.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::State;
use super::audit::{Audit, Caller};
use super::extract::Json;
use super::lookup;
use super::problem::{AnyProblem, MessageProblem, Problem};
use super::time::Due;
use super::words::{BrokerWord, Instant};
use crate::broker::portrait::{Portrait, compose};
use crate::clock::rfc3339;
use crate::delay::When;
use crate::message::{Message, ProducerId, Uid};
use crate::store::{Author, Entry, Outcome};

/// A message to park.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"destination": "orders", "key": "eu.de", "delay_ms": 60_000,
    "id": "order-17", "body": "{\"order\": 17}",
    "properties": {"content_type": "application/json"}, "headers": {"source": "console"}}))]
pub(super) struct Sketch {
    /// A configured exchange or topic.
    destination: String,
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[schema(value_type = Option<BrokerWord>, inline)]
    broker: Option<String>,
    /// Routing key or record key.
    #[serde(default)]
    key: String,
    /// Held for so many milliseconds.
    delay_ms: Option<u64>,
    /// Held until this instant: Unix milliseconds, or RFC 3339.
    #[schema(value_type = Option<Instant>, inline)]
    deliver_at: Option<Value>,
    /// Its own id; a parked message of the same id is replaced.
    id: Option<String>,
    /// The body, as text.
    #[serde(default)]
    body: String,
    /// Properties, by their names in the protocol.
    #[serde(default)]
    properties: Map<String, Value>,
    /// Headers.
    #[serde(default)]
    headers: Map<String, Value>,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"uid": "0198c5d0a3f27b0e8f7a1c2d3e4f5a6b", "result": "parked",
    "due": 1_795_276_800_000_u64, "due_at": "2026-11-21T16:00:00Z"}))]
pub(super) struct ParkedView {
    /// Its name from now on.
    uid: String,
    /// `parked`, `replaced`, or `replaced_possibly_delivered` when the message it replaces was just
    /// being released.
    result: &'static str,
    /// When it will be released, in Unix milliseconds.
    due: u64,
    /// The same in RFC 3339.
    due_at: String,
}

/// Park a message
#[utoipa::path(post, path = "/v1/messages", tag = "messages", request_body = Sketch,
    responses((status = 201, body = ParkedView), AnyProblem, MessageProblem))]
pub(super) async fn park(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Json(sketch): Json<Sketch>,
) -> Result<(StatusCode, axum::Json<ParkedView>), Problem> {
    let destination = lookup::destination(&state, &sketch.destination, sketch.broker.as_deref())?;
    if !state.is_served(&destination) {
        return Err(Problem::invalid(format!(
            "`{}` is not configured any more: what is parked for it goes out, nothing new comes in",
            destination.name
        )));
    }
    let when = Due { delay_ms: sketch.delay_ms, deliver_at: sketch.deliver_at }.read(&state)?;
    let id = sketch.id.map(|id| {
        ProducerId::new(id.as_bytes()).ok_or_else(|| Problem::invalid("id is 1 to 255 bytes long"))
    });
    let id = id.transpose()?;
    let portrait = Portrait {
        key: sketch.key,
        properties: sketch.properties,
        headers: sketch.headers,
        body: Bytes::from(sketch.body),
    };
    let priority = portrait.properties.get("priority").and_then(Value::as_u64).unwrap_or(0);
    let content = compose(destination.broker, portrait).map_err(Problem::invalid)?;
    let delay_ms = match when {
        When::AtOnce => None,
        When::In(ms) | When::Since { ms, .. } => Some(ms),
        When::At(due) => Some(due.saturating_sub(state.clock.now()).max(1)),
    };
    let uid = Uid::fresh();
    let message = Message { uid: uid.clone(), id: id.clone(), delay_ms, content };
    let priority = u8::try_from(priority).unwrap_or(u8::MAX);
    let entry = Entry::Park { message, when, priority, by: Author::Operator };
    let parkings = state.store.park(&destination, std::slice::from_ref(&entry)).await?;
    let outcome = parkings.entries.first().map(|parking| parking.outcome);
    let (result, due) = match outcome {
        Some(Outcome::Parked(due)) => ("parked", due),
        Some(Outcome::Replaced(due)) => ("replaced", due),
        Some(Outcome::ReplacedLeased(due)) => ("replaced_possibly_delivered", due),
        _ => return Err(Problem::conflict("gone", "the store did not take it; try again")),
    };
    let metrics = state.metrics.of(&destination);
    metrics.taken_in(1);
    metrics.captured(&entry, outcome.unwrap_or(Outcome::Known));
    Audit { caller: &caller, step: result }.message(&destination, &uid, id.as_ref());
    if let (Some(alarm), Some(due)) =
        (state.destinations.alarm(&destination), parkings.earliest_due)
    {
        alarm.ring_for(due);
    }
    let view = ParkedView { uid: uid.to_string(), result, due, due_at: rfc3339(due) };
    Ok((StatusCode::CREATED, axum::Json(view)))
}
