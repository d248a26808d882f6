//! `GET /v1/messages` and `GET /v1/messages/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::State;
use super::extract::{Path, Query};
use super::filter::Filter;
use super::lookup::Named;
use super::problem::{AnyProblem, MessageProblem, Problem};
use super::time::millis;
use super::view::{MessageView, WholeMessageView};
use super::words::{BrokerWord, StateWord};
use crate::clock::UnixMs;

/// Messages of a page when nobody says how many, and at most.
const PAGE: usize = 50;
const PAGE_MAX: usize = 500;

/// Which messages, where a page begins and how long it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The exchange or topic; all when not given.
    destination: Option<String>,
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[param(value_type = Option<BrokerWord>, inline)]
    broker: Option<String>,
    /// `parked` (when not given), `leased` or `dead`.
    #[param(value_type = Option<StateWord>, inline)]
    state: Option<String>,
    /// What the producer's id begins with.
    id: Option<String>,
    /// The routing key or record key.
    key: Option<String>,
    /// Due at this instant or later, in Unix milliseconds.
    #[serde(deserialize_with = "millis")]
    due_from: Option<UnixMs>,
    /// Due before this instant, in Unix milliseconds.
    #[serde(deserialize_with = "millis")]
    due_to: Option<UnixMs>,
    /// What an earlier page of the same filter answered.
    #[param(pattern = "^([0-9a-f]{2})+$")]
    cursor: Option<String>,
    /// Most messages of this page, 1 to 500; 50 when not given.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// A page of a listing.
#[derive(Serialize, ToSchema)]
pub(super) struct PageView {
    /// In order of `at`.
    messages: Vec<MessageView>,
    /// To ask for the next page with; null at the end.
    cursor: Option<String>,
    /// How many were looked at: a page ends after 2000, whether they matched or not.
    examined: usize,
}

/// List messages, the soonest first
#[utoipa::path(get, path = "/v1/messages", tag = "messages", params(Wanted),
    responses((status = 200, body = PageView, description = "A page; it may be empty and yet not the last"),
        AnyProblem))]
pub(super) async fn list(
    Extract(state): Extract<Arc<State>>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<PageView>, Problem> {
    let Wanted { destination, broker, state: of, id, key, due_from, due_to, .. } = wanted;
    let filter = Filter { destination, broker, state: of, id, key, due_from, due_to };
    let limit = wanted.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::invalid("limit is a number from 1 to 500"));
    }
    let start = filter.start(wanted.cursor.as_deref())?;
    let page = filter.page(&state, start, limit).await?;
    let messages =
        page.matches.iter().map(|(destination, seen)| MessageView::new(destination, seen));
    Ok(Json(PageView {
        messages: messages.collect(),
        cursor: page.next.map(|place| place.to_text()),
        examined: page.examined,
    }))
}

/// Which destination a producer's id belongs to.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct In {
    /// The exchange or topic: with it, `id` may be the producer's own.
    pub destination: Option<String>,
    /// `amqp` or `kafka`, where both have a destination of that name.
    #[param(value_type = Option<BrokerWord>, inline)]
    pub broker: Option<String>,
}

impl In {
    pub(super) fn named(&self, state: &State, id: String) -> Result<Named, Problem> {
        Named::new(state, id, self.destination.as_deref(), self.broker.as_deref())
    }
}

/// Show one message with all its facts
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    responses((status = 200, body = WholeMessageView), AnyProblem, MessageProblem))]
pub(super) async fn show(
    Extract(state): Extract<Arc<State>>,
    Path(id): Path<String>,
    Query(at): Query<In>,
) -> Result<Json<WholeMessageView>, Problem> {
    let (destination, found) = at.named(&state, id)?.find(&state).await?;
    Ok(Json(WholeMessageView::new(&destination, &found, state.previews)))
}
