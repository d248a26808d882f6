//! One step with one message: cancel, release now, reschedule, revive, bury.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Extract;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::State;
use super::audit::{Audit, Caller};
use super::extract::{Json, Path, Query};
use super::messages::In;
use super::problem::{AnyProblem, MessageProblem, Problem};
use super::time::Due;
use crate::delay::When;
use crate::history::What;
use crate::message::{Destination, ProducerId, Reason, Uid};
use crate::store::{Error, Steered, Step};

/// How often a message is looked up again that was replaced just then.
const LOOKS: usize = 3;

/// What was done.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"result": "cancelled", "uid": "0198c5d0a3f27b0e8f7a1c2d3e4f5a6b",
    "id": "order-17", "destination": "orders", "due": null}))]
pub(super) struct Done {
    /// `cancelled`, `cancelled_possibly_delivered`, `rescheduled`, `revived` or `buried`.
    result: &'static str,
    /// The message.
    uid: String,
    /// Its producer's id.
    id: Option<String>,
    /// Its destination.
    destination: String,
    /// Its due from now on, in Unix milliseconds, where that was changed.
    due: Option<u64>,
}

/// Why a message is buried.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Why {
    /// In words, for whoever finds it.
    pub reason: Option<String>,
}

impl Why {
    pub(super) fn step(self) -> Step {
        let text = self.reason.unwrap_or_else(|| "buried by an operator".to_owned());
        Step::Bury(Reason::new("operator", text))
    }
}

/// Cancel a message: it is not delivered, unless a replica is just doing that
#[utoipa::path(delete, path = "/v1/messages/{id}", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    responses((status = 200, body = Done), AnyProblem, MessageProblem))]
pub(super) async fn cancel(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(at): Query<In>,
) -> Result<axum::Json<Done>, Problem> {
    one(&state, &caller, id, &at, Step::Cancel).await
}

/// Release a parked message now
#[utoipa::path(post, path = "/v1/messages/{id}/release", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    responses((status = 200, body = Done), AnyProblem, MessageProblem))]
pub(super) async fn release(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(at): Query<In>,
) -> Result<axum::Json<Done>, Problem> {
    one(&state, &caller, id, &at, Step::Reschedule(When::AtOnce)).await
}

/// Give a parked message another due
#[utoipa::path(post, path = "/v1/messages/{id}/reschedule", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    request_body = Due,
    responses((status = 200, body = Done), AnyProblem, MessageProblem))]
pub(super) async fn reschedule(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(at): Query<In>,
    Json(due): Json<Due>,
) -> Result<axum::Json<Done>, Problem> {
    let when = due.read(&state)?;
    one(&state, &caller, id, &at, Step::Reschedule(when)).await
}

/// Park a dead message again, with all its attempts before it
#[utoipa::path(post, path = "/v1/messages/{id}/revive", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    request_body = Option<Due>,
    responses((status = 200, body = Done), AnyProblem, MessageProblem))]
pub(super) async fn revive(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(at): Query<In>,
    due: Option<Json<Due>>,
) -> Result<axum::Json<Done>, Problem> {
    let when = due.map(|Json(due)| due.read_if_given(&state)).transpose()?.flatten();
    one(&state, &caller, id, &at, Step::Revive(when)).await
}

/// Keep a parked message as dead
#[utoipa::path(post, path = "/v1/messages/{id}/bury", tag = "messages", params(In,
    ("id" = String, Path, description = "The uid, or with destination= the producer's id")),
    request_body = Option<Why>,
    responses((status = 200, body = Done), AnyProblem, MessageProblem))]
pub(super) async fn bury(
    Extract(state): Extract<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(at): Query<In>,
    why: Option<Json<Why>>,
) -> Result<axum::Json<Done>, Problem> {
    let Json(why) = why.unwrap_or_default();
    one(&state, &caller, id, &at, why.step()).await
}

async fn one(
    state: &State,
    caller: &Caller,
    id: String,
    at: &In,
    step: Step,
) -> Result<axum::Json<Done>, Problem> {
    let named = at.named(state, id)?;
    for _ in 0..LOOKS {
        let (destination, found) = named.find(state).await?;
        let (uid, id) = (found.seen.uid.clone(), found.seen.id().cloned());
        let whom = [found.seen.handle()];
        let steered = state.store.steer(&destination, &step, &whom).await;
        let steered = steered.map_err(|error| uncertain(caller, &destination, &step, error))?;
        let steered = steered.first().copied().unwrap_or(Steered::Unknown);
        if steered == Steered::Unknown {
            // It was released or replaced since it was looked up: the next look tells.
            continue;
        }
        take_note(state, caller, &destination, (&uid, id.as_ref()), &step, steered);
        return answer(&destination, &uid, id.as_ref(), steered).map(axum::Json);
    }
    Err(Problem::conflict("busy", "it is being replaced all the time; try again"))
}

/// A step whose answer was lost may have happened.
pub(super) fn uncertain(
    caller: &Caller,
    destination: &Destination,
    step: &Step,
    error: Error,
) -> Problem {
    let named = match step {
        Step::Cancel => "cancel",
        Step::Reschedule(_) => "reschedule",
        Step::Revive(_) => "revive",
        Step::Bury(_) => "bury",
    };
    Audit { caller, step: named }.uncertain(destination, &error);
    let mut problem = Problem::from(error);
    problem.detail.push_str("; it may have happened all the same: look again before you repeat it");
    problem
}

/// What the rest of the house must know of a step that was taken.
pub(super) fn take_note(
    state: &State,
    caller: &Caller,
    destination: &Destination,
    (uid, id): (&Uid, Option<&ProducerId>),
    step: &Step,
    steered: Steered,
) {
    let metrics = state.metrics.of(destination);
    match (steered, step) {
        (Steered::Cancelled, _) => metrics.cancelled(Some(uid.clone()), id.cloned(), false),
        (Steered::CancelledLeased, _) => metrics.cancelled(Some(uid.clone()), id.cloned(), true),
        (Steered::Rescheduled(due), _) => {
            metrics.steered(uid.clone(), id.cloned(), What::Rescheduled { due });
        }
        (Steered::Revived, _) => metrics.steered(uid.clone(), id.cloned(), What::Revived),
        (Steered::Buried, Step::Bury(reason)) => metrics.buried(uid, id.cloned(), reason),
        _ => return,
    }
    // What was made due earlier wakes whoever sleeps beyond it.
    if let Some(alarm) = state.destinations.alarm(destination) {
        alarm.ring();
    }
    Audit { caller, step: word(steered) }.message(destination, uid, id);
}

fn answer(
    destination: &Destination,
    uid: &Uid,
    id: Option<&ProducerId>,
    steered: Steered,
) -> Result<Done, Problem> {
    let refused = |kind, detail| Err(Problem::conflict(kind, detail));
    let due = match steered {
        Steered::IsLeased => return refused("leased", "a replica is releasing it right now"),
        Steered::IsDead => return refused("dead", "it is dead: revive it"),
        Steered::IsParked => return refused("parked", "it is parked already: reschedule it"),
        Steered::IdTaken => {
            return refused("id_taken", "a newer message has its producer's id: cancel that first");
        }
        Steered::Unknown => return refused("gone", "it is not here any more"),
        Steered::Rescheduled(due) => Some(due),
        Steered::Cancelled | Steered::CancelledLeased | Steered::Revived | Steered::Buried => None,
    };
    Ok(Done {
        result: word(steered),
        uid: uid.to_string(),
        id: id.map(ToString::to_string),
        destination: destination.name.to_string(),
        due,
    })
}

/// What came of a step, in one word.
pub(super) fn word(steered: Steered) -> &'static str {
    match steered {
        Steered::Cancelled => "cancelled",
        Steered::CancelledLeased => "cancelled_possibly_delivered",
        Steered::Rescheduled(_) => "rescheduled",
        Steered::Revived => "revived",
        Steered::Buried => "buried",
        Steered::IsLeased => "leased",
        Steered::IsDead => "dead",
        Steered::IsParked => "parked",
        Steered::IdTaken => "id_taken",
        Steered::Unknown => "gone",
    }
}
