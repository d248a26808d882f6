//! What went wrong with a request, in one shape for every route, and what to do about it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

use crate::store::Error;

/// The body of every answer that is not the one asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": 404, "kind": "unknown",
    "detail": "no message has the uid 0198c5d0a3f27b0e8f7a1c2d3e4f5a6b"}))]
pub(super) struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// One of few words, for programs.
    pub kind: &'static str,
    /// For people: what is wrong, and what mends it.
    pub detail: String,
    /// When the message was released, in Unix milliseconds, if that is why it is not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_at: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status: status.as_u16(), kind, detail: detail.into(), released_at: None }
    }

    /// The request makes no sense as it is.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    /// What it names is not here.
    pub(super) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown", detail)
    }

    /// The message is in a state in which this cannot be done.
    pub(super) fn conflict(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        (status, Json(self)).into_response()
    }
}

/// What any route may answer instead.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "these describe the answers in the OpenAPI file")]
pub(super) enum AnyProblem {
    /// The request makes no sense as it is.
    #[response(status = 400, example = json!({"status": 400, "kind": "invalid",
        "detail": "state is `parked`, `leased` or `dead`, not `sleeping`"}))]
    Invalid(#[to_schema] Problem),
    /// A token is needed, or this is not one.
    #[response(status = 401, example = json!({"status": 401, "kind": "token",
        "detail": "send the token of admin.token_file: Authorization: Bearer ..."}))]
    Token(#[to_schema] Problem),
    /// This token may only read, or the request comes from another site.
    #[response(status = 403, example = json!({"status": 403, "kind": "read-only",
        "detail": "this token may only read"}))]
    Forbidden(#[to_schema] Problem),
    /// What is named does not exist.
    #[response(status = 404, example = json!({"status": 404, "kind": "unknown",
        "detail": "there is no destination of that name; there are: orders"}))]
    Unknown(#[to_schema] Problem),
    /// The body took too long.
    #[response(status = 408, example = json!({"status": 408, "kind": "slow",
        "detail": "the body did not arrive within 10 s"}))]
    Slow(#[to_schema] Problem),
    /// The store does not answer.
    #[response(status = 503, example = json!({"status": 503, "kind": "store",
        "detail": "the store is not available: connection refused"}))]
    Store(#[to_schema] Problem),
}

/// What a route about one message may answer besides.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "these describe the answers in the OpenAPI file")]
pub(super) enum MessageProblem {
    /// It is in a state in which this cannot be done.
    #[response(status = 409, example = json!({"status": 409, "kind": "leased",
        "detail": "a replica is releasing it right now"}))]
    Conflict(#[to_schema] Problem),
    /// It was released, as this replica remembers.
    #[response(status = 410, example = json!({"status": 410, "kind": "released",
        "detail": "it was released at 2026-11-21T16:00:00.004Z", "released_at": 1_795_276_800_004_u64}))]
    Released(#[to_schema] Problem),
}
