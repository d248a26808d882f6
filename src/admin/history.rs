//! `GET /v1/history` and `GET /v1/events`: what happened lately, and what happens now.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use axum::response::Sse;
use axum::response::sse::{Event as SseEvent, KeepAlive};
use futures_util::stream::{Stream, unfold};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use utoipa::{IntoParams, ToSchema};

use super::State;
use super::extract::Query;
use super::problem::{AnyProblem, Problem};
use super::words::EventWord;
use crate::clock::UnixMs;
use crate::history::{Event, What};

/// Events of one answer when nobody says how many, and at most.
const LAST: usize = 100;
const LAST_MAX: usize = 1_000;

/// Something that happened to one message on this replica.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"at": 1_795_276_800_004_u64, "what": "released",
    "uid": "0198c5d0a3f27b0e8f7a1c2d3e4f5a6b", "id": null, "destination": "orders",
    "broker": "amqp", "due": 1_795_276_800_000_u64, "lateness_ms": 4}))]
pub(super) struct EventView {
    /// When, in Unix milliseconds of the store's clock.
    at: UnixMs,
    /// `released`, `cancelled`, `cancelled_possibly_delivered`, `buried`, `rescheduled`, `revived`.
    what: &'static str,
    uid: Option<String>,
    /// The producer's id.
    id: Option<String>,
    destination: String,
    broker: &'static str,
    /// Released: when it was due. Rescheduled: when it is due now.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<UnixMs>,
    /// Released: how late, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_ms: Option<u64>,
    /// Buried: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl EventView {
    fn new(event: Event) -> Self {
        let (what, due, lateness_ms, reason) = match event.what {
            What::Released { due, lateness_ms } => ("released", Some(due), Some(lateness_ms), None),
            What::Cancelled { possibly_delivered: false } => ("cancelled", None, None, None),
            What::Cancelled { possibly_delivered: true } => {
                ("cancelled_possibly_delivered", None, None, None)
            }
            What::Buried { reason } => ("buried", None, None, Some(reason)),
            What::Rescheduled { due } => ("rescheduled", Some(due), None, None),
            What::Revived => ("revived", None, None, None),
        };
        Self {
            at: event.at,
            what,
            uid: event.uid.map(|uid| uid.to_string()),
            id: event.id.map(|id| id.to_string()),
            destination: event.destination.name.to_string(),
            broker: event.destination.broker.as_str(),
            due,
            lateness_ms,
            reason,
        }
    }
}

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Of this exchange or topic.
    destination: Option<String>,
    /// Of this kind, such as `buried`; `cancelled` is both kinds of that.
    #[param(value_type = Option<EventWord>, inline)]
    what: Option<String>,
    /// Most events, 1 to 1000; 100 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Which {
    fn check(&self) -> Result<(), Problem> {
        let kinds = ["released", "cancelled", "buried", "rescheduled", "revived"];
        match self.what.as_deref() {
            Some(what) if !kinds.contains(&what) => {
                Err(Problem::invalid(format!("what is one of {}", kinds.join(", "))))
            }
            _ => Ok(()),
        }
    }

    fn is(&self, event: &Event) -> bool {
        let kind = match event.what {
            What::Released { .. } => "released",
            What::Cancelled { .. } => "cancelled",
            What::Buried { .. } => "buried",
            What::Rescheduled { .. } => "rescheduled",
            What::Revived => "revived",
        };
        self.what.as_deref().is_none_or(|wanted| wanted == kind)
            && self.destination.as_deref().is_none_or(|wanted| wanted == &*event.destination.name)
    }
}

/// What happened lately.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryView {
    /// The last first.
    events: Vec<EventView>,
}

/// The last released, cancelled and buried messages of this replica
#[utoipa::path(get, path = "/v1/history", tag = "overview", params(Which),
    responses((status = 200, body = HistoryView), AnyProblem))]
pub(super) async fn history(
    Extract(state): Extract<Arc<State>>,
    Query(which): Query<Which>,
) -> Result<Json<HistoryView>, Problem> {
    which.check()?;
    let limit = which.limit.unwrap_or(LAST);
    if !(1..=LAST_MAX).contains(&limit) {
        return Err(Problem::invalid("limit is a number from 1 to 1000"));
    }
    let last = state.history().last(limit, |event| which.is(event));
    Ok(Json(HistoryView { events: last.into_iter().map(EventView::new).collect() }))
}

/// The same as they happen: server-sent events, one JSON object each
#[utoipa::path(get, path = "/v1/events", tag = "overview", params(Which),
    responses((status = 200, content_type = "text/event-stream", body = EventView,
        description = "`event: message` with one event, or `event: missed` with how many were \
                       too fast for this connection"), AnyProblem))]
pub(super) async fn events(
    Extract(state): Extract<Arc<State>>,
    Query(which): Query<Which>,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Problem> {
    which.check()?;
    let seat = Arc::clone(&state.watchers).try_acquire_owned().map_err(|_| {
        let why = "too many watch already; GET /v1/history tells the same, later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "watchers", why)
    })?;
    let shutdown = state.shutdown.clone();
    let watching = unfold((state.history().watch(), which, shutdown, seat), |state| async move {
        let (mut events, which, mut shutdown, seat) = state;
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = shutdown.requested() => return None,
            };
            let told = match event {
                Ok(event) if which.is(&event) => SseEvent::default()
                    .event("message")
                    .json_data(EventView::new(event))
                    .unwrap_or_default(),
                Ok(_) => continue,
                Err(RecvError::Lagged(missed)) => {
                    SseEvent::default().event("missed").data(missed.to_string())
                }
                Err(RecvError::Closed) => return None,
            };
            return Some((Ok(told), (events, which, shutdown, seat)));
        }
    });
    Ok(Sse::new(watching).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}
